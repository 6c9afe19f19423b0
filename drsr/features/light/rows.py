"""One row of the view `light` per candidate: the structural columns, then those of the text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drsr.decide.candidates import DecisionState
from drsr.features.lexical import read_passages, words_of
from drsr.features.light.as_read import as_read
from drsr.features.light.columns import TEXT, light_layout
from drsr.features.light.holdings import holding_columns, read_holdings
from drsr.features.light.index import read_index
from drsr.features.light.relevance import Relevance
from drsr.features.light.supersession import call_columns
from drsr.features.occurrences import number_items
from drsr.features.spans import prefix_hash
from drsr.features.structural import structural_features
from drsr.features.vectors import CandidateFeatures


def light_features(state: DecisionState) -> CandidateFeatures:
    """Return the features of a state, computed from what its reader reads: the view. No language model is run."""
    read = as_read(state)
    passages = read_passages(read.history.request, sort_keys=True)
    numbered = number_items(words_of(passage.text) for passage in passages.values())
    index = read_index(read, passages, numbered)
    holdings = read_holdings(index)
    relevance = Relevance(holdings)
    rows = []
    for candidate in read.candidates:
        block = candidate.block
        values = call_columns(index, block) | holding_columns(holdings, block) | relevance.columns(block)
        rows.append([values[column.name] for column in TEXT])
    text: NDArray[np.float64] = np.array(rows, dtype=np.float64).reshape(len(rows), len(TEXT))
    matrix = np.concatenate([structural_features(read, passages, index.words), text], axis=1).astype(np.float32)
    return CandidateFeatures(matrix, light_layout().hash, prefix_hash(state))

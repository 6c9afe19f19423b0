"""Taking a request apart against tokenizing it once: `python -m benchmarks.core`.

Numerator: parse the JSON, read the request, check the protocol, find Steps and Blocks, render with all spans, freeze
candidates, and measure all fourteen deletion sets on their real rewrites. Denominator: one call of the tokenizer on the
rendered text, without offsets, its fastest way. Both in one process, in turn, on one thread; the median of the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import tokenizers

from benchmarks.long_request import long_request
from drsr.backbone import embedded
from drsr.backbone.catalogue import load_tokenizer
from drsr.decide.candidates import DecisionState, freeze
from drsr.decide.deletion_sets import deletion_sets
from drsr.request.contracts import Tokenizer
from drsr.request.json_values import parse_json
from drsr.request.rendering import render
from drsr.request.request import read_request

CONTEXT_CAP = 10**9  # the whole request is the view: nothing is skipped
TARGET = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=50_000, help="length of the request")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    tokenizer, _ = load_tokenizer(embedded.NAME)
    plain = tokenizers.Tokenizer.from_file(str(embedded.MODEL.folder / "tokenizer.json"))
    name, request = long_request(tokenizer, options.tokens)
    data = json.dumps(request.to_wire()).encode()
    text = plain.decode(render(request, tokenizer).token_ids.tolist(), skip_special_tokens=False)
    length, sets = take_apart(data, tokenizer)
    whole, once = [], []
    for _ in range(options.turns):
        whole.append(seconds(lambda: take_apart(data, tokenizer)))
        once.append(seconds(lambda: plain.encode_batch_fast([text], add_special_tokens=False)))
    ratios = [core / tokenized for core, tokenized in zip(whole, once, strict=True)]
    print(f"{name}: {len(request.messages):,} messages, {len(data):,} bytes of JSON, {length:,} tokens, {sets} sets")
    print(f"  tokenizing its text once               {statistics.median(once) * 1000:7.1f} ms")
    print(f"  the whole core, {sets} savings included    {statistics.median(whole) * 1000:7.1f} ms")
    ratio = statistics.median(ratios)
    print(f"  ratio {ratio:.2f} (min {min(ratios):.2f}, max {max(ratios):.2f}; at most {TARGET})")
    return 0 if ratio <= TARGET else 1


def take_apart(data: bytes, tokenizer: Tokenizer) -> tuple[int, int]:
    """Do everything that the core does before it calls the backbone."""
    state = freeze(read_request(parse_json(data, "benchmark")), tokenizer, CONTEXT_CAP)
    assert isinstance(state, DecisionState), state
    sets = deletion_sets(state, 3)
    assert all(found.direct_saving > 0 and not found.violations for found in sets)
    return len(state.rendering), len(sets)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())

"""A radix tree over token sequences: each distinct prefix once, so that it is computed once.

The rewrites of a state, and all states of a trajectory, share long beginnings. The lengths of the tree's nodes add up
to the tokens that must be processed; the lengths of the sequences to those that scoring one by one would process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from drsr.request.contracts import TokenIds

Key = TypeVar("Key")


@dataclass(slots=True, eq=False)
class Node(Generic[Key]):
    """A run of tokens without a branch."""

    start: int
    """Number of tokens before it on the way from the root."""
    tokens: TokenIds
    """Its own tokens; only the root has none."""
    keys: list[Key] = field(default_factory=list)
    """The sequences that end with its last token."""
    children: list[Node[Key]] = field(default_factory=list)
    """Nodes that come next, no two of which begin with the same token."""

    @property
    def stop(self) -> int:
        """Tokens on the way from the root up to and with its own."""
        return self.start + len(self.tokens)

    def walk(self) -> Iterator[Node[Key]]:
        """Yield the node and all below it, depth first, each after its parent."""
        open_nodes = [self]
        while open_nodes:
            node = open_nodes.pop()
            yield node
            open_nodes.extend(reversed(node.children))


def build_tree(sequences: Mapping[Key, TokenIds]) -> Node[Key]:
    """Return the tree of all sequences. Time grows linearly with their total length; equal ones share all nodes."""
    root: Node[Key] = Node(start=0, tokens=np.empty(0, dtype=np.int32))
    for key, sequence in sequences.items():
        _insert(root, key, sequence)
    return root


def total_tokens(root: Node[Key]) -> int:
    """Return the tokens to process: the sum of all nodes' lengths."""
    return sum(len(node.tokens) for node in root.walk())


def branch_depth(root: Node[Key]) -> int:
    """Return how many branches are open at a time on the way to the deepest node."""
    deepest, open_nodes = 0, [(root, 0)]
    while open_nodes:
        node, above = open_nodes.pop()
        depth = above + (len(node.children) > 1)
        deepest = max(deepest, depth)
        open_nodes += [(child, depth) for child in node.children]
    return deepest


def as_one_batch(children: Sequence[Node[Key]], for_nothing: int, most: int) -> list[Node[Key]]:
    """Return the children of a node that are read as rows of one batch, the longest last; empty where that is slower.

    Rows are filled up to the longest, which spoils the states that the others end in: so these are leaves, and only the
    longest may have children. A forward of up to `for_nothing` tokens takes as long as one of a single token, and none
    may have more than `most`.
    """
    batch = sorted((child for child in children if not child.children), key=_length)
    longest = _length(batch[-1]) if batch else 0
    going_on = (child for child in children if child.children and _length(child) >= longest)
    batch += sorted(going_on, key=_length)[:1]
    if len(batch) < 2:
        return []
    filled = len(batch) * _length(batch[-1])
    one_by_one = sum(max(for_nothing, _length(child)) for child in batch)
    return batch if filled <= min(one_by_one, most) else []


def _length(node: Node[Key]) -> int:
    return len(node.tokens)


def path_of(root: Node[Key], sequence: TokenIds) -> list[Node[Key]]:
    """Return the nodes that spell a sequence of the tree, in order. AssertionError if they spell anything else."""
    path, node = [], root
    while node.stop < len(sequence):
        node = next(child for child in node.children if child.tokens[0] == sequence[node.stop])
        path.append(node)
    spelt = np.concatenate([root.tokens, *(node.tokens for node in path)])
    if not np.array_equal(spelt, sequence):
        raise AssertionError("the tree does not hold the sequence it was asked for")
    return path


def _insert(root: Node[Key], key: Key, sequence: TokenIds) -> None:
    node = root
    while node.stop < len(sequence):
        rest = sequence[node.stop :]
        child = next((child for child in node.children if child.tokens[0] == rest[0]), None)
        if child is None:
            child = Node(start=node.stop, tokens=rest)
            node.children.append(child)
        shared = common_prefix(child.tokens, rest)
        if shared < len(child.tokens):
            _split(child, shared)
        node = child
    node.keys.append(key)


def _split(node: Node[Key], length: int) -> None:
    """Keep the first `length` tokens; the rest goes into a node below, with all that came after."""
    below = Node(node.start + length, node.tokens[length:], node.keys, node.children)
    node.tokens, node.keys, node.children = node.tokens[:length], [], [below]


def common_prefix(one: TokenIds, other: TokenIds) -> int:
    """Return the length of the common prefix."""
    length = min(len(one), len(other))
    differing = np.flatnonzero(one[:length] != other[:length])
    return int(differing[0]) if len(differing) else length

"""Our attention function: exact causal attention of a few new tokens over all keys so far, with something to watch.

It is registered with transformers under the name "drsr" and differs from its SDPA function in four ways:
- fewer queries than keys are aligned at the lower right, as a continuation needs it (SDPA's own `is_causal` aligns at
  the upper left and would silently drop keys);
- grouped key/value heads are used as they are, never repeated;
- it can report the new queries and all keys of a layer, from which the attention of a few positions follows at the
  price of as many rows instead of the whole matrix;
- the new tokens may be those of several branches, which attend one after another, each over its own beginning:
  stretches of one sequence, or rows of a batch that are filled up on the right.

What belongs to one forward (masks, branches, who watches) travels in a context variable: two threads never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from drsr.backbone.matrices.mixed import HALF_PRODUCTS
from drsr.errors import BackboneError
from drsr.settings import MIXED

IMPLEMENTATION = "drsr"
"""The name under which transformers finds it."""

Report = Callable[[int, torch.Tensor, torch.Tensor], None]
"""Takes a layer (from 1), its new queries [heads, new, head_dim] and its keys [kv_heads, length, head_dim]."""


Write = Callable[[int, int, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Takes a layer (from 1), a position and the new keys and values from there on; gives all of them up to the last."""


class Branch(NamedTuple):
    """A branch's share of the new tokens of a forward."""

    rows: slice
    """The new tokens that are its own. In a row of a batch, tokens after those of its sequence belong to nobody."""
    start: int
    """The position of the first of them: it attends over all that was written before that position, and over itself."""
    layers: frozenset[int] = frozenset()
    report: Report | None = None
    sequence: int = 0
    """The row of the batch."""


class _Forward:
    """Values that the layers of one forward share."""

    def __init__(
        self,
        layers: frozenset[int] = frozenset(),
        report: Report | None = None,
        branches: Sequence[Branch] = (),
        write: Write | None = None,
    ) -> None:
        self.layers = layers
        self.report = report
        self.branches = branches
        self.write = write
        self._masks: dict[tuple[int, int, torch.dtype], torch.Tensor] = {}

    def mask(self, query: torch.Tensor, keys: int) -> torch.Tensor:
        """0 where a query may look, -inf after it. Made for the first layer; all others have the same shapes."""
        queries = query.shape[2]
        shape = (queries, keys, query.dtype)
        if shape not in self._masks:
            mask = torch.zeros(queries, keys, dtype=query.dtype, device=query.device)
            future = torch.full((queries, queries), float("-inf"), dtype=query.dtype, device=query.device)
            mask[:, keys - queries :] = future.triu_(1)
            self._masks[shape] = mask
        return self._masks[shape]


_forward: ContextVar[_Forward | None] = ContextVar("drsr_attention_forward", default=None)


@contextmanager
def one_forward(layers: frozenset[int] = frozenset(), report: Report | None = None) -> Iterator[None]:
    """Around each forward of the model: the queries and the keys of these layers (from 1) are reported."""
    yield from _around(_Forward(layers, report))


@contextmanager
def one_forward_of_branches(branches: Sequence[Branch], write: Write) -> Iterator[None]:
    """Around a forward over several branches, whose cache hands on new keys and values only.

    In every layer each branch in turn writes its own and attends: what the branch before it wrote behind the place
    where the two part is overwritten, so that every branch sees its own beginning and nothing else.
    """
    yield from _around(_Forward(branches=branches, write=write))


def _around(forward: _Forward) -> Iterator[None]:
    token = _forward.set(forward)
    try:
        yield
    finally:
        _forward.reset(token)


def register() -> None:
    """Make the function known to transformers. Doing it again changes nothing."""
    # No mask function is registered with it: transformers then makes no mask, and the causal one below is the only one.
    ALL_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, causal_attention)


def causal_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """Implement the attention interface of transformers: query [1, heads, new, dim], key and value [1, kv_heads,
    length, dim].

    The result is [1, new, heads, dim]. The queries are those of the last `new` positions. In a forward of branches key
    and value are those of the new tokens only, and there may be several rows of them in place of the 1.
    """
    _refuse_other_attention(attention_mask, settings)
    forward = _forward.get() or _Forward()
    if forward.write is None:
        attended = _reported(forward, module, (forward.layers, forward.report), (query, key, value), scaling)
        return attended.transpose(1, 2), None
    parts = []
    for rows, start, layers, report, sequence in forward.branches:
        new_query, new_key, new_value = (tensor[sequence : sequence + 1, :, rows] for tensor in (query, key, value))
        keys, values = forward.write(module.layer_idx + 1, start, new_key, new_value)
        parts.append(_reported(forward, module, (layers, report), (new_query, keys, values), scaling))
    if len(query) == 1:
        return torch.cat(parts, dim=2).transpose(1, 2), None
    filled = [torch.nn.functional.pad(part, (0, 0, 0, query.shape[2] - part.shape[2])) for part in parts]
    return torch.cat(filled).transpose(1, 2), None


def _reported(
    forward: _Forward,
    module: Any,
    wanted: tuple[frozenset[int], Report | None],
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    scale: float | None,
) -> torch.Tensor:
    """Compute attention, and report it to the watch if there is one for this layer."""
    layers, report = wanted
    query, key, value = tensors
    layer = module.layer_idx + 1
    if report is not None and layer in layers:
        report(layer, query[0], key[0])
    half = getattr(module, "rounds_attention_to", None)
    if half is None:
        return _attend(forward, query, key, value, scale=scale)
    rounded = (query.to(half), key.to(half), value.to(half))
    if query.device.type not in HALF_PRODUCTS:  # as a GPU does it: factors of 16 bits, sums of 32
        rounded = (rounded[0].float(), rounded[1].float(), rounded[2].float())
    return _attend(forward, *rounded, scale=scale).to(query.dtype)


class Kernel(StrEnum):
    """The way that attention is computed."""

    PLAIN = "plain"
    """On a CPU, torch chooses. Needs no mask, because all keys are seen or the queries are as many as the keys."""
    MASK = "mask"
    """torch chooses, with a mask of new tokens times all tokens: what a CPU does well."""
    FLASH = "flash"
    """16 bits on a GPU: no mask is ever materialised."""
    EFFICIENT = "efficient"
    """float32 on a GPU, likewise. It knows no groups of heads, and torch would otherwise fall back to a kernel that
    holds the weights of every pair of tokens: at 55,000 tokens 7 GB for each forward of 2,048 and 16 heads."""


_BACKENDS = {Kernel.FLASH: SDPBackend.FLASH_ATTENTION, Kernel.EFFICIENT: SDPBackend.EFFICIENT_ATTENTION}


def kernel_for(device: str, dtype: torch.dtype, new: int, length: int) -> Kernel:
    """Return how to attend with the last `new` of `length` positions on a kind of device."""
    if device == "cuda":  # one token as well: torch would copy its keys for every head of a group, 1.8 GB at 55,000
        return Kernel.FLASH if dtype in (torch.float16, torch.bfloat16) else Kernel.EFFICIENT
    return Kernel.MASK if 1 < new < length else Kernel.PLAIN


def _attend(
    forward: _Forward, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float | None
) -> torch.Tensor:
    new, length = query.shape[2], key.shape[2]
    kernel = kernel_for(query.device.type, query.dtype, new, length)
    if kernel in _BACKENDS:
        return attend_by(kernel, query, key, value, scale)
    mask = forward.mask(query, length) if kernel is Kernel.MASK else None
    grouped = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=new == length, scale=scale, enable_gqa=grouped
    )


def attend_by(
    kernel: Kernel, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
) -> torch.Tensor:
    """Attend by this kernel and no other. The heads of a group become a batch entry, over keys that are not copied."""
    batches, shape = by_group(query, key, value), query.shape
    with _only(kernel):
        found = scaled_dot_product_attention(
            *batches, attn_mask=causal_lower_right(shape[2], key.shape[2]), scale=scale
        )
    return found.reshape(shape[0], shape[1], shape[2], value.shape[3])


def by_group(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return query [kv_heads, group, new, dim] and keys and values as often as there are heads in a group, as views."""
    groups, group = key.shape[1], query.shape[1] // key.shape[1]
    queries = query[0].reshape(groups, group, *query.shape[2:])
    keys, values = (tensor[0][:, None].expand(-1, group, -1, -1) for tensor in (key, value))
    return queries, keys, values


@contextmanager
def _only(kernel: Kernel) -> Iterator[None]:
    try:
        with sdpa_kernel(_BACKENDS[kernel]):
            yield
    except RuntimeError as error:
        if "No available kernel" not in str(error):
            raise
        raise BackboneError(
            f"this GPU cannot compute attention by the {kernel} kernel",
            hint=f"another dtype has another kernel: {MIXED} or bfloat16 on newer GPUs, float32 on older ones",
        ) from error


def _refuse_other_attention(attention_mask: torch.Tensor | None, settings: dict[str, Any]) -> None:
    """A window, a soft cap, sinks or a padding mask would change the numbers, and are not computed here."""
    asked = [name for name in ("sliding_window", "softcap", "s_aux", "position_bias") if settings.get(name) is not None]
    asked += ["attention_mask"] if attention_mask is not None else []
    asked += ["bidirectional attention"] if settings.get("is_causal") is False else []
    asked += ["dropout"] if settings.get("dropout") else []
    if asked:
        raise BackboneError(f"plain causal attention is all that is supported, the model asks for {', '.join(asked)}")

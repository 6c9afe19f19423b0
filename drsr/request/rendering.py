"""The canonical serialisation of a request, with the exact token span of every part.

One ChatML-like form for labels, features and token counts, the same for every backbone and for both protocols:

    <|im_start|>tools\\n [...] <|im_end|>\\n                               tool definitions, JSON with sorted keys
    <|im_start|>system\\n ... <|im_end|>\\n
    <|im_start|>user\\n ... <|im_end|>\\n
    <|im_start|>assistant\\n <think>\\n...\\n</think>\\n text \\n<tool_call>\\n{...}\\n</tool_call> <|im_end|>\\n
    <|im_start|>tool\\n ... <|im_end|>\\n                                one frame per result
    <|im_start|>assistant\\n                                              the generation prompt

The text is cut into pieces, frames that we write and contents that others wrote, and every piece is tokenized on its
own. The tokens of the whole are the concatenated tokens of the pieces by definition, and how a piece is rendered never
depends on its neighbours. So a span is exact, a rewrite's tokens are the original's minus whole pieces, and all savings
of a decision cost one tokenization (docs/decisions/0001-tokens-by-piece.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drsr.errors import AlignmentError
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.history import Block, Removal, Rewrite
from drsr.request.json_values import canonical_json
from drsr.request.parts import Call, Message, Opaque, Part, PartRef, Reasoning, Result, Text
from drsr.request.request import Request

RENDERER_VERSION = "chatml/1"
"""Changes whenever the same request would give other tokens. Part of a label's, a feature's and a policy's identity."""

_MESSAGE_END = "<|im_end|>\n"
_MESSAGE_START = {role: f"<|im_start|>{role}\n" for role in ("tools", "system", "user", "assistant", "tool")}
_GENERATION_PROMPT = _MESSAGE_START["assistant"]
_RESULT_START = _MESSAGE_START["tool"]
_CALL_START, _CALL_END = "\n<tool_call>\n", "\n</tool_call>"
_REASONING_START, _REASONING_END = "<think>\n", "\n</think>\n"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A request as tokens."""

    token_ids: TokenIds
    """The whole context; its last token, the end of the generation prompt, is the pre-action position."""
    message_spans: tuple[range, ...]
    """Tokens of each message of the request, its frames included."""
    part_spans: dict[PartRef, range]
    """Tokens of each part that has any, its tags included."""
    prompt_length: int
    """Tokens of the generation prompt."""

    def __len__(self) -> int:
        """Tok(C)."""
        return len(self.token_ids)

    @property
    def pre_action_position(self) -> int:
        return len(self.token_ids) - 1

    def token_spans(self, block: Block) -> tuple[range, ...]:
        """Return the tokens of a Block, in order; an exchange has two ranges if its call and its result are apart."""
        return _merged([self.part_spans[ref] for ref in block.parts if ref in self.part_spans])

    def removed_spans(self, removed: Removal) -> tuple[range, ...]:
        """Return the tokens that a joint deletion takes away: its parts, and whole messages if nothing is left of
        them."""
        refs = (PartRef(index, part) for index, parts in removed.parts.items() for part in parts)
        vanished = [self.message_spans[index] for index in removed.vanished]
        return _merged(vanished + [self.part_spans[ref] for ref in refs if ref in self.part_spans])

    def direct_saving(self, removed: Removal) -> int:
        """w(A) = Tok(C) - Tok(D_A(C)), exact."""
        saved = sum(len(self.message_spans[index]) for index in removed.vanished)
        for index, parts in removed.parts.items():
            spans = (self.part_spans.get(PartRef(index, part)) for part in parts)
            saved += sum(len(span) for span in spans if span is not None)
        return saved

    def length_of(self, original: Request, rewritten: Rewrite, tokenizer: Tokenizer) -> int:
        """Tok of a rewrite of the request that this is the rendering of: what rendering it from scratch gives. Only
        messages that are not the original's own are rendered; how one is rendered does not depend on its neighbours."""
        request = rewritten.request
        if request.tools is not original.tools or request.system is not original.system:
            return len(render(request, tokenizer))
        spans, messages = self.message_spans, original.messages
        length = (spans[0].start if spans else len(self) - self.prompt_length) + self.prompt_length
        changed = []
        for index, message in zip(rewritten.kept, request.messages, strict=True):
            if message is messages[index]:
                length += len(spans[index])
            else:
                changed.append(message)
        return length + sum(_length_alone(message, tokenizer) for message in changed)

    def without(self, removed: Removal) -> TokenIds:
        """Return the token ids of D_A(C): equal to rendering the rewritten request from scratch."""
        keep = np.ones(len(self.token_ids), dtype=bool)
        for span in self.removed_spans(removed):
            keep[span.start : span.stop] = False
        return self.token_ids[keep]

    def before(self, message: int) -> Rendering:
        """Return the rendering of the request cut before one of its messages: equal to rendering that request from
        scratch."""
        stop = self.message_spans[message].start
        return Rendering(
            token_ids=np.concatenate([self.token_ids[:stop], self.token_ids[-self.prompt_length :]]),
            message_spans=self.message_spans[:message],
            part_spans={ref: span for ref, span in self.part_spans.items() if ref.message < message},
            prompt_length=self.prompt_length,
        )


class _Pieces:
    """Collects frames and contents in order, so that all contents are tokenized in one batch."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[TokenIds | None] = [tokenizer.lead]
        self._contents: list[str] = []
        self._owners: list[str | int] = []
        self.owner: str | int = ""
        """Owner of the contents that come next, for error messages: a message by its index."""

    def __len__(self) -> int:
        return len(self._ids)

    def frame(self, text: str) -> None:
        self._ids.append(self._tokenizer.encode_frame(text))

    def content(self, text: str) -> None:
        if text:
            self._ids.append(None)
            self._contents.append(text)
            self._owners.append(self.owner)

    def tokenize(self) -> tuple[TokenIds, list[int]]:
        """Return all token ids, and the position where each piece starts and, last, where the whole ends."""
        try:
            encoded = iter(self._tokenizer.encode_contents(self._contents))
        except AlignmentError as error:
            if error.content is None:
                raise
            owner = self._owners[error.content]
            if isinstance(owner, int):
                raise AlignmentError(error.what, where=f"message {owner}", message=owner) from error
            raise AlignmentError(error.what, where=owner) from error
        ids = [piece if piece is not None else next(encoded) for piece in self._ids]
        starts = [0]
        for piece in ids:
            starts.append(starts[-1] + len(piece))
        return np.concatenate(ids), starts


def render(request: Request, tokenizer: Tokenizer) -> Rendering:
    """Serialise and tokenize a request."""
    pieces = _Pieces(tokenizer)
    message_pieces: list[range] = []
    part_pieces: dict[PartRef, range] = {}
    if request.tools:
        pieces.owner = "tools"
        pieces.frame(_MESSAGE_START["tools"])
        pieces.content(canonical_json(request.tools))
        pieces.frame(_MESSAGE_END)
    if request.system is not None:
        pieces.owner = "system"
        _add_message(pieces, request.system, -1, {})
    for index, message in enumerate(request.messages):
        start = len(pieces)
        pieces.owner = index
        _add_message(pieces, message, index, part_pieces)
        message_pieces.append(range(start, len(pieces)))
    pieces.frame(_GENERATION_PROMPT)
    token_ids, starts = pieces.tokenize()
    return Rendering(
        token_ids=token_ids,
        message_spans=tuple(range(starts[span.start], starts[span.stop]) for span in message_pieces),
        part_spans={ref: range(starts[span.start], starts[span.stop]) for ref, span in part_pieces.items()},
        prompt_length=starts[-1] - starts[-2],
    )


def common_prefix(one: TokenIds, other: TokenIds) -> int:
    """Return the length of the common prefix of two contexts, in tokens."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length


def _length_alone(message: Message, tokenizer: Tokenizer) -> int:
    pieces = _Pieces(tokenizer)
    _add_message(pieces, message, 0, {})
    return len(pieces.tokenize()[0]) - len(tokenizer.lead)


def render_output(message: Message, tokenizer: Tokenizer) -> TokenIds:
    """Return the tokens of one assistant message after the generation prompt: its content and the end of its turn."""
    pieces = _Pieces(tokenizer)
    pieces.owner = "the output"
    lead = len(tokenizer.lead)
    for part in message.parts:
        _add_pieces(pieces, part)
    pieces.frame(_MESSAGE_END)
    return pieces.tokenize()[0][lead:]


def _add_message(pieces: _Pieces, message: Message, index: int, part_pieces: dict[PartRef, range]) -> None:
    """Add the pieces of one message. Every result has its own frame, in front; all other parts share one, so no frame
    depends on the results next to or between the other parts."""
    results = {number for number, _ in message.results}
    for number in sorted(results):
        _add_part(pieces, message.parts[number], PartRef(index, number), part_pieces)
    # an assistant's frame also where it is empty: like the generation prompt
    if len(results) < len(message.parts) or message.role == "assistant":
        pieces.frame(_MESSAGE_START[message.role])
        for number, part in enumerate(message.parts):
            if number not in results:
                _add_part(pieces, part, PartRef(index, number), part_pieces)
        pieces.frame(_MESSAGE_END)


def _add_part(pieces: _Pieces, part: Part, ref: PartRef, part_pieces: dict[PartRef, range]) -> None:
    start = len(pieces)
    _add_pieces(pieces, part)
    if len(pieces) > start:
        part_pieces[ref] = range(start, len(pieces))


def _add_pieces(pieces: _Pieces, part: Part) -> None:
    match part:
        case Text(text=text):
            pieces.content(text)
        case Reasoning(text=text) if text:
            pieces.frame(_REASONING_START)
            pieces.content(text)
            pieces.frame(_REASONING_END)
        case Call(name=name, arguments=arguments):
            pieces.frame(_CALL_START)
            pieces.content(canonical_json({"arguments": arguments, "name": name}))
            pieces.frame(_CALL_END)
        case Result(text=text, opaque=opaque):
            pieces.frame(_RESULT_START)
            pieces.content(text)
            if opaque:
                pieces.content("[content that is not text]")
            pieces.frame(_MESSAGE_END)
        case Opaque(kind=kind):
            pieces.content(f"[{kind}]")


def _merged(spans: list[range]) -> tuple[range, ...]:
    """Sorted, with neighbours joined."""
    joined: list[range] = []
    for span in sorted(spans, key=lambda span: span.start):
        if joined and joined[-1].stop >= span.start:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, span.stop))
        else:
            joined.append(span)
    return tuple(joined)

"""The text columns by plain loops over parts and sets of strings: the slow, obvious twin of the room's indexes.

It looks for every item in every part, and shares with the fast code only what a word, a path, an error word, a prompt
and an object is.
"""

from __future__ import annotations

from math import log, log1p
from typing import Any

from drsr.decide.candidates import DecisionState
from drsr.features.content import is_error, paths_in
from drsr.features.lexical import part_text
from drsr.features.light.calls import Doing, doing_of, object_of
from drsr.features.structural import is_prompt
from drsr.request.history import Block, BlockKind
from drsr.request.parts import Call, PartRef, Result


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class Twin:
    def __init__(self, state: DecisionState) -> None:
        self.state = state
        self.history = state.history
        self.messages = self.history.request.messages
        listed = list(enumerate(self.messages))
        if self.history.request.system is not None:
            listed.insert(0, (-1, self.history.request.system))
        self.refs = [PartRef(index, number) for index, message in listed for number in range(len(message.parts))]
        parts = {PartRef(i, n): part for i, message in listed for n, part in enumerate(message.parts)}
        self.parts: dict[PartRef, Any] = parts
        self.text = {ref: part_text(part, sort_keys=True) for ref, part in parts.items()}
        self.words = {ref: self._words(text) for ref, text in self.text.items()}
        self.steps = {step.message for step in self.history.steps}
        self.blocks = [block for step in self.history.steps for block in step.blocks]
        self.chosen = {ref for candidate in state.candidates for ref in candidate.block.parts}
        recent = self.history.recent
        self.recent = recent[0].message if recent else len(self.messages)
        self.exchanges = [block for block in self.blocks if block.kind is BlockKind.TOOL_EXCHANGE]

    @staticmethod
    def _words(text: str) -> list[str]:
        words, word = [], ""
        for character in text.lower() + " ":
            if character.isalnum() or character == "_":
                word += character
            elif word:
                words.append(word)
                word = ""
        return words

    def agent(self, ref: PartRef) -> bool:
        return ref.message in self.steps and not isinstance(self.parts[ref], Result)

    def kind(self, ref: PartRef, what: str) -> set[Any]:
        words = self.words[ref]
        if what == "identifier":
            return {word for word in words if len(word) >= 3 and not word.isalpha() and not word.isdecimal()}
        if what == "number":
            return {word for word in words if len(word) >= 2 and word.isdecimal()}
        if what == "path":
            return {path.rstrip(".:") for path in paths_in(self.text[ref])}
        if what == "shingle":
            return set(zip(words, words[1:], words[2:], strict=False))
        return set(words)

    def holders(self, item: Any, what: str) -> list[PartRef]:
        return [ref for ref in self.refs if item in self.kind(ref, what)]

    def items(self, refs: Any, what: str) -> set[Any]:
        return set().union(*(self.kind(ref, what) for ref in refs))

    def call(self, block: Block) -> Call:
        part = self.parts[block.parts[0]]
        assert isinstance(part, Call)
        return part

    def error(self, block: Block) -> tuple[str, ...] | None:
        if len(block.parts) < 2:
            return None
        words = self.words[block.parts[1]]
        for place, word in enumerate(words[:40]):
            if is_error(word):
                return tuple([other for other in words[place : place + 16] if other.isalpha()][:8])
        return None

    def lines(self, refs: Any) -> list[str]:
        return [line.strip() for ref in refs for line in self.text[ref].split("\n") if line.strip()]

    def columns(self, block: Block) -> dict[str, float]:
        return (
            self.of_calls(block)
            | self.of_entities(block)
            | self.of_shingles(block)
            | self.of_age(block)
            | self.of_use(block)
            | self.of_relevance(block)
        )

    def of_calls(self, block: Block) -> dict[str, float]:
        names = (
            "same_object_before same_object_after superseded_after superseded_share object_touched_after "
            "object_written_after object_recent same_tool_stays reports_error error_before error_after error_overcome "
            "next_call_same_tool next_call_same_object is_read is_search is_write is_run result_words"
        )
        found = dict.fromkeys(names.split(), 0.0)
        results = [ref for ref in self.refs if isinstance(self.parts[ref], Result)]
        answered = [other for other in self.exchanges if results and results[-1] in other.parts]
        lines = self.lines(block.parts)
        found["last_result_error"] = float(any(self.error(other) is not None for other in answered))
        found["repeated_lines"] = ratio(sum(line in lines[:place] for place, line in enumerate(lines)), len(lines))
        if block not in self.exchanges:
            return found
        place, own = self.exchanges.index(block), self.call(block)
        before, after = self.exchanges[:place], self.exchanges[place + 1 :]

        def same(other: Block) -> bool:
            return self.call(other).name == own.name and object_of(self.call(other)) == object_of(own)

        touched = [other for other in after if object_of(self.call(other)) == object_of(own)]
        later = [other for other in after if same(other)]
        found["same_object_before"] = log1p(len([other for other in before if same(other)]))
        found["same_object_after"] = log1p(len(later))
        found["superseded_after"] = log1p(self.exchanges.index(later[0]) - place) if later else 0.0
        with_result = [other for other in later if len(other.parts) > 1]
        if with_result and len(block.parts) > 1:
            mine, theirs = set(self.lines(block.parts[1:])), set(self.lines(with_result[-1].parts[1:]))
            found["superseded_share"] = ratio(len(mine & theirs), len(mine))
        found["object_touched_after"] = log1p(len(touched))
        found["object_written_after"] = float(any(Doing.WRITE in doing_of(self.call(other)) for other in touched))
        found["object_recent"] = float(any(other.parts[0].message >= self.recent for other in touched))
        stays = [other for other in self.exchanges if not self.chosen & set(other.parts)]
        found["same_tool_stays"] = log1p(len([other for other in stays if self.call(other).name == own.name]))
        error = self.error(block)
        if error is not None:
            found["reports_error"] = 1.0
            found["error_before"] = log1p(len([other for other in before if self.error(other) == error]))
            found["error_after"] = log1p(len([other for other in after if self.error(other) == error]))
            fine = [other for other in after if len(other.parts) > 1 and self.error(other) is None]
            found["error_overcome"] = float(any(self.call(other).name == own.name for other in fine))
        if after and self.call(after[0]).name == own.name:
            found["next_call_same_tool"] = 1.0
            found["next_call_same_object"] = float(same(after[0]))
        for name, doing in (("read", Doing.READ), ("search", Doing.SEARCH), ("write", Doing.WRITE), ("run", Doing.RUN)):
            found[f"is_{name}"] = float(doing in doing_of(own))
        found["result_words"] = log1p(len(self.words[block.parts[1]])) if len(block.parts) > 1 else 0.0
        return found

    def of_entities(self, block: Block) -> dict[str, float]:
        step = self.history.steps[block.step]
        found: dict[str, float] = {}
        lost = unique_all = source = total = recently = 0
        taken: list[int] = []
        for what in ("identifier", "number", "path"):
            own = self.items(block.parts, what)
            used = unique = 0
            for item in own:
                holders = self.holders(item, what)
                said = [ref for ref in holders if self.agent(ref)]
                later = [ref for ref in said if ref.message > step.message]
                sources = [ref for ref in holders if not self.agent(ref)]
                used += bool(later)
                unique += set(holders) <= set(block.parts)
                lost += set(holders) <= self.chosen
                recently += any(ref.message >= self.recent for ref in said)
                source += bool(later) and bool(sources) and set(sources) <= set(block.parts)
                if later and holders[0] in block.parts:
                    taken.append(later[-1].message)
            found |= {
                f"{what}s": log1p(len(own)),
                f"{what}s_used": ratio(used, len(own)),
                f"{what}s_unique": ratio(unique, len(own)),
            }
            total += len(own)
            unique_all += unique
        since = max(taken) if taken else step.message
        return found | {
            "entities_unique": log1p(unique_all),
            "entities_lost": log1p(lost),
            "entities_used_recently": ratio(recently, total),
            "source_of_used": log1p(source),
            "introduced_used": log1p(len(taken)),
            "last_use_age": log1p(len([other for other in self.history.steps if other.message > since])),
        }

    def of_shingles(self, block: Block) -> dict[str, float]:
        own = self.items(block.parts, "shingle")

        def covered(refs: Any) -> float:
            return ratio(len(own & self.items(refs, "shingle")), len(own))

        last = self.history.steps[-1].message
        said = self.items((ref for ref in self.refs if ref.message == last and self.agent(ref)), "shingle")
        earlier = self.items((r for r in self.refs if r.message < last and r not in block.parts), "shingle")
        return {
            "shingles_stay": covered(ref for ref in self.refs if ref not in self.chosen),
            "shingles_after": covered(ref for ref in self.refs if ref > block.parts[-1]),
            "shingles_recent": covered(ref for ref in self.refs if ref.message >= self.recent),
            "shingles_candidates": covered(self.chosen - set(block.parts)),
            "recent_shingles_here": ratio(len(said & own), len(said)),
            "recent_shingles_lost": ratio(len((said & own) - earlier), len(said)),
        }

    def of_age(self, block: Block) -> dict[str, float]:
        step = self.history.steps[block.step]
        later = [ref for ref in self.refs if ref.message > step.message and self.agent(ref)]
        length = len(self.state.rendering)
        behind = length - max(span.stop for span in self.state.rendering.token_spans(block))
        return {
            "calls_before": log1p(len([other for other in self.exchanges if other.step < block.step])),
            "calls_after": log1p(len([other for other in self.exchanges if other.step > block.step])),
            "words_after": log1p(sum(len(self.words[ref]) for ref in later)),
            "tokens_after_share": behind / length,
        }

    def of_use(self, block: Block) -> dict[str, float]:
        own = self.items(block.parts, "word")
        following = [step.message for step in self.history.steps if step.index == block.step + 1]
        next_words = self.items((r for r in self.refs if r.message in following and self.agent(r)), "word")
        before = self.items((ref for ref in self.refs if ref < block.parts[0]), "word")
        last = [other for other in self.exchanges if other.step == self.exchanges[-1].step] if self.exchanges else []
        called = self.items((other.parts[0] for other in last), "word")
        sources = self.items((r for r in self.refs if not self.agent(r) and r not in block.parts), "word")
        return {
            "next_step_from_it": ratio(len(own & next_words), len(next_words)),
            "next_step_from_it_alone": ratio(len((own & next_words) - before), len(next_words)),
            "last_call_from_it": ratio(len(own & called), len(called)),
            "last_call_from_it_alone": ratio(len((own & called) - sources), len(called)),
        }

    def rarity(self, word: str) -> float:
        frequency = sum(word in self.items(block.parts, "word") for block in self.blocks)
        return log(1 + (len(self.blocks) - frequency + 0.5) / (frequency + 0.5))

    def bm25(self, block: Block, query: set[str]) -> float:
        lengths = [sum(len(self.words[ref]) for ref in other.parts) for other in self.blocks]
        mean = sum(lengths) / len(lengths)
        words = [word for ref in block.parts for word in self.words[ref]]
        score = 0.0
        for word in query:
            count = words.count(word)
            if count:
                score += self.rarity(word) * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(words) / mean))
        return score / max(len(query), 1)

    def of_relevance(self, block: Block) -> dict[str, float]:
        prompts = [index for index, message in enumerate(self.messages) if is_prompt(message)]
        last = self.history.steps[-1].message
        results = [ref for ref in self.refs if isinstance(self.parts[ref], Result)]
        queries = {
            "bm25_task": [r for r in self.refs if r.message in prompts and r.message < self.history.prefix_length],
            "bm25_last_user": [ref for ref in self.refs if ref.message in prompts[-1:]],
            "bm25_recent": [ref for ref in self.refs if ref.message >= self.recent],
            "bm25_last_step": [ref for ref in self.refs if ref.message == last and self.agent(ref)],
            "bm25_last_result": results[-1:],
        }
        words = {name: self.items(refs, "word") for name, refs in queries.items()}
        found = {name: self.bm25(block, query) for name, query in words.items()}
        older = [other for step in self.history.older for other in step.blocks]
        for name in ("bm25_recent", "bm25_last_step"):
            lower = [other for other in older if self.bm25(other, words[name]) < found[name] - 1e-12]
            found[f"{name}_rank"] = ratio(len(lower), len(older) - 1)
        own = self.items(block.parts, "word")
        stays = self.items((ref for ref in self.refs if ref not in self.chosen), "word")
        total = sum(map(self.rarity, own))
        return found | {
            "rarity": ratio(total, len(own)),
            "rarity_recent": ratio(sum(map(self.rarity, own & words["bm25_recent"])), total),
            "rarity_stays": ratio(sum(map(self.rarity, own & stays)), total),
        }

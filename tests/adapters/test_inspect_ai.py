"""Models of Inspect in real evaluations with its mock model: what the model is shown, and what the sample keeps.

The package asks for newer releases than our pins allow: `make frameworks` installs it in an environment of its own and
runs this.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed; it does not go with our pins: make frameworks")

from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.event import ModelEvent
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver
from inspect_ai.tool import Tool, ToolCall, ToolCallError, tool

from drsr.adapters import bypass
from drsr.adapters.inspect_ai import MessagesForm, prune_with
from drsr.adapters.pruner import Pruner
from drsr.decide.decision import Reason
from drsr.errors import SettingsError
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from tests.adapters.carried import check_carried, spelled
from tests.adapters.long_run import RUN, check_sent
from tests.conversations import Conversation, conversations

pytestmark = pytest.mark.filterwarnings("default")  # the package's own: nothing is pinned in its environment


GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "adapters.md"


@tool  # type: ignore[untyped-decorator]
def read_file() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: Where it is.
        """
        return f"contents of {path}"

    return execute


def messages_of(run: Conversation, *thought: ContentReasoning) -> list[ChatMessage]:
    """The run as a sample holds it; every answer thinks `thought` first."""
    messages: list[ChatMessage] = [ChatMessageSystem(content=run.system)] if run.system else []
    messages.append(ChatMessageUser(content=run.task))
    for turn in run.turns:
        reasons = [*thought, *([ContentReasoning(reasoning=turn.reasoning)] if turn.reasoning else [])]
        said: Any = [*reasons, *([ContentText(text=turn.text)] if turn.text else [])] if reasons else turn.text
        calls = [ToolCall(id=i, function=name, arguments=arguments) for i, name, arguments, _ in turn.exchanges]
        messages.append(ChatMessageAssistant(content=said, tool_calls=calls or None))
        messages += [ChatMessageTool(content=e.answer, tool_call_id=e.call_id, function=e.name) for e in turn.exchanges]
        messages += [ChatMessageUser(content=turn.user)] if turn.user else []
    return messages


HISTORY = messages_of(RUN)


def told(messages: list[ChatMessage]) -> list[Any]:
    found: list[Any] = MessagesForm((), messages).request["messages"]
    return found


class Shown:
    """A model that says what it is told to, and keeps what it is shown."""

    def __init__(self, *answers: ModelOutput) -> None:
        self.inputs: list[list[ChatMessage]] = []
        self._answers = list(answers)
        self.model: Model = get_model("mockllm/model", custom_outputs=self._answer, memoize=False)

    def _answer(self, input: list[ChatMessage], *_: Any) -> ModelOutput:
        self.inputs.append(list(input))
        answer = self._answers.pop(0) if self._answers else ModelOutput.from_content("mockllm/model", "done")
        return answer.model_copy(update={"usage": ModelUsage(input_tokens=1)})  # or it fetches a tokenizer to count


@solver  # type: ignore[untyped-decorator]
def with_history() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.messages = copy.deepcopy(HISTORY)
        return state

    return solve


def evaluated(model: Model, solver: Any, folder: Path) -> Any:
    (log,) = eval(
        Task(dataset=[Sample(input="x")], solver=[with_history(), solver]),
        model=model,
        log_dir=str(folder),
        display="none",
    )
    assert log.status == "success", log.error
    (sample,) = log.samples
    return sample


@pytest.mark.parametrize("agent", [False, True])
def test_the_model_sees_a_pruned_view_and_the_sample_keeps_everything(agent: bool, tmp_path: Path) -> None:
    decisions: list[Decision] = []
    calls = ModelOutput.for_tool_call("mockllm/model", "read_file", {"path": "a"})
    submits = ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "done"})
    shown = Shown(calls, submits) if agent else Shown()
    model = prune_with(scripted_policy(), shown.model, on_decision=decisions.append)
    does = react(prompt=None, tools=[read_file()]) if agent else generate()
    sample = evaluated(model, does, tmp_path)
    kept = [message.model_dump(exclude={"id"}) for message in sample.messages]
    assert kept[: len(HISTORY)] == [message.model_dump(exclude={"id"}) for message in HISTORY]
    assert len(sample.messages) == len(HISTORY) + (3 if agent else 1)
    for place, input in enumerate(shown.inputs):
        check_sent(told(sample.messages[: len(HISTORY) + 2 * place]), told(input))
    asked = [found for found in sample.events if isinstance(found, ModelEvent)]
    assert [len(found.input) for found in asked] == [len(input) for input in shown.inputs]
    assert [decision.pruned for decision in decisions] == [True] * len(shown.inputs)
    outcome = decisions[0].outcome
    assert outcome is not None
    names = [one["function"]["name"] for one in outcome.evidence.base.tools]
    assert names == (["read_file", "submit"] if agent else [])


def test_the_model_that_was_handed_in_prunes_nothing() -> None:
    shown, decisions = Shown(), list[Decision]()
    model = prune_with(scripted_policy(), shown.model, on_decision=decisions.append)
    watching = prune_with(scripted_policy(), shown.model, on_decision=decisions.append, shadow=True)

    async def ask() -> None:
        await model.generate(HISTORY)
        await shown.model.generate(HISTORY)
        await watching.generate(HISTORY)
        with bypass():
            await model.generate(HISTORY)
        await model.generate("hello")

    asyncio.run(ask())
    assert [len(input) < len(HISTORY) for input in shown.inputs] == [True, False, False, False, True]
    assert [decision.pruned for decision in decisions] == [True, True]
    assert str(model) == str(shown.model)


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its snippet runs as it stands, but for the model's name."""
    (section,) = re.findall(r"\n## Inspect\n.*?```py\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "task.py").write_text(
        "from inspect_ai import Task, task\nfrom inspect_ai.dataset import Sample\n\n"
        "@task\ndef t():\n    return Task(dataset=[Sample(input='x')])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    code = section.replace("openai/gpt-5", "mockllm/model").replace("eval(", "(log,) = eval(")
    given: dict[str, Any] = {"policy": scripted_policy(), "get_model": lambda name: Shown().model}
    exec(code.replace("from inspect_ai.model import get_model\n", ""), given)  # noqa: S102 - our own text
    assert given["log"].status == "success"


def test_mistakes_are_said_at_once() -> None:
    with pytest.raises(SettingsError, match="use the proxy with --recall"):
        prune_with(scripted_policy(), Shown().model, recall=True)
    with pytest.raises(TypeError, match="a model of Inspect's, not a str"):
        prune_with(scripted_policy(), "mockllm/model")


def test_no_failure_of_ours_reaches_the_agent() -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError

    shown, decisions = Shown(), list[Decision]()
    model = prune_with(scripted_policy(), shown.model, protect=fails, on_decision=decisions.append)
    assert asyncio.run(model.generate(HISTORY)).completion == "done"
    assert len(shown.inputs[0]) == len(HISTORY)
    assert decisions[0].reason is Reason.INTERNAL_FAILURE


PLAIN = ContentReasoning(reasoning="hm")


@pytest.mark.parametrize(
    ("thought", "said"),
    [
        (ContentReasoning(reasoning="hm", signature="s"), False),
        (ContentReasoning(reasoning="x", redacted=True), True),
        (ContentReasoning(reasoning="hm", internal={"id": 1}), False),
        (PLAIN, True),
    ],
)
def test_reasoning_that_is_sealed_goes_with_its_call_or_stays(thought: ContentReasoning, said: bool) -> None:
    turns = tuple(turn._replace(exchanges=turn.exchanges[:1], text="I look." if said else "") for turn in RUN.turns)
    messages = messages_of(RUN._replace(turns=turns), thought)
    assert check_carried(messages, partial(MessagesForm, ())).pruned
    seen = Pruner(scripted_policy()).view(messages, partial(MessagesForm, ()))
    assert len(seen) < len(messages)
    sealed = [message for message in seen if isinstance(message, ChatMessageAssistant)] if thought != PLAIN else []
    for message in sealed:
        assert isinstance(message.content_list[0], ContentReasoning)
        assert message.tool_calls or message.text


def test_images_stay_and_errors_are_told_as_the_model_reads_them() -> None:
    messages = copy.deepcopy(HISTORY)
    results = [message for message in messages if isinstance(message, ChatMessageTool)]
    results[0].content = [ContentText(text="see"), ContentImage(image="data:image/png;base64,AA==")]
    results[1].error = ToolCallError("timeout", "too slow")
    assert told(messages)[messages.index(results[0])]["content"][1] == {"type": "image"}
    assert told(messages)[messages.index(results[1])]["content"] == "too slow"
    decision = check_carried(messages, partial(MessagesForm, ()))
    assert decision.pruned
    assert results[0].tool_call_id in [message.get("tool_call_id") for message in decision.messages]


@settings(max_examples=50)
@given(conversations(min_turns=6, max_turns=10))
def test_any_run_is_carried_over_exactly(run: Conversation) -> None:
    messages = messages_of(run)
    expected = run.to_openai()["messages"]
    assert [spelled(message) for message in told(messages)] == [spelled(message) for message in expected]
    decision = check_carried(messages, partial(MessagesForm, ()))
    event(f"pruned: {decision.pruned}, reason: {decision.reason}")
    assert json.dumps(decision.messages)

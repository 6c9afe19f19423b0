"""What the agent's turns with a method's tools take, against numbers counted by hand.

The scripted tokenizer cuts a text into words of up to six letters, single digits, and up to four marks, each with the
space before it (of a digit, a token of its own, written _ below). So "a b c d e f g h i" and its line break are 10
tokens, and of the frames of a message

    the user's       <|im_start|> user \\n ... <|im_end|> \\n                                          5
    a tool's         <|im_start|> tool \\n ... <|im_end|> \\n                                          5
    the assistant's  <|im_start|> assist ant \\n ... <|im_end|> \\n                                    6
    of a call        \\n <tool_call> \\n ... \\n </tool_call>                                           5
    the last         <|im_start|> assist ant \\n                                                      4
"""

from __future__ import annotations

from typing import Any

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.acm import Acm
from drsr.offline.bench.comparators.contract import Rewrite
from drsr.offline.bench.comparators.sam import Sam
from drsr.offline.bench.comparators.sculptor import Sculptor
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.comparators.tool_turns import ToolCall, tool_turn
from drsr.request.request import read_request
from tests.messages import USER, answers, asks
from tests.offline.bench.recording_summariser import RecordingSummariser

LINE = "a b c d e f g h i\n"
SUMMARISED = (100, 10)
"""What every answer of the recording summariser takes."""


def exchange(call_id: str, result: str, arguments: str = "{}") -> list[dict[str, Any]]:
    """With a result of one token 28 tokens: 6 + 5 for the frames, 11 for {" argume nts ": {}, " name ": " f "}, 5 + 1.

    With the arguments {"x": "key_7"} it has six more: {" x ": " key_ 7 "}, instead of {}, and so 34.
    """
    return [asks(call_id, arguments=arguments), answers(call_id, result)]


def tokens(rewrite: Rewrite) -> tuple[int, int]:
    return rewrite.auxiliary_input_tokens, rewrite.auxiliary_output_tokens


def test_a_turn_reads_the_request_and_writes_its_calls() -> None:
    counts = TokenCounts(ScriptedTokenizer())
    request = read_request([USER, *exchange("a", "r")])
    one = tool_turn(counts, request, ToolCall("fold", {"id": "2_0_1"}))
    # The task 5 + 1, the exchange 28, the last frame 4.
    # {" argume nts ": {" id ": " 2 _ 0 _ 1 "}, " name ": " fold "}
    assert (one.input_tokens, one.output_tokens) == (38, 20)
    two = tool_turn(counts, request, ToolCall("fold", {"id": "2_0_1"}), ToolCall("fold", {"id": "2_0_2"}))
    assert (two.input_tokens, two.output_tokens) == (38, 40)


def test_sculptor_pays_for_fragmenting_folding_searching_and_restoring() -> None:
    counts = TokenCounts(ScriptedTokenizer())
    assert counts.text(LINE * 30) == 300
    method, summariser = Sculptor(counts), RecordingSummariser()
    state = method.begin()
    past = [USER, *exchange("a", LINE * 29 + "key_7 c d e f g h\n"), *exchange("b", "r"), *exchange("c", "r")]
    found = method.rewrite(read_request(past), state, summariser)
    # 6 for the task, 27 + 299 for the long exchange (key_ 7 c d e f g h and the line break are 9), 28 for each of the
    # others, 4. Nothing is folded yet when it folds.
    before = 6 + 27 + 299 + 2 * 28 + 4
    # {" argume nts ": {" messag e ": _ 2 }, " name ": " fragme nt "} are 18; twice the 20 of a fold.
    assert tokens(found) == (2 * before, 18 + 2 * 20) == (784, 58)

    quiet = method.rewrite(read_request([*past, *exchange("d", "r")]), state, summariser)
    assert tokens(quiet) == (0, 0)

    named = [*past, *exchange("d", "r"), *exchange("e", "r", '{"x": "key_7"}')]
    found = method.rewrite(read_request(named), state, summariser)
    # The long result is now its first 100 tokens and two marks of 11, [ fragme nt _ 2 _ 0 _ 1 folded ], of which one
    # ends and the other begins with the same token: ][
    folded = 6 + 27 + 100 + 2 * 11 - 1 + 3 * 28 + 34 + 4
    # {" argume nts ": {" text ": " key_ 7 "}, " name ": " search "} are 17; restor e has one piece more than fold.
    assert tokens(found) == (2 * folded, 17 + 21) == (552, 38)
    assert summariser.asked == []


def test_sculptor_pays_for_each_summary_twice_its_own_turn_and_the_summarisers() -> None:
    method, summariser = Sculptor(TokenCounts(ScriptedTokenizer(), window=200)), RecordingSummariser()
    past = [USER, *exchange("a", LINE * 30), *exchange("b", "r"), *exchange("c", "r")]
    found = method.rewrite(read_request(past), method.begin(), summariser)
    whole = 6 + 27 + 300 + 2 * 28 + 4
    folded = whole - 200 + 2 * 11 - 1
    # summar ise has one piece more than fold.
    assert tokens(found) == (2 * whole + folded + SUMMARISED[0], 58 + 21 + SUMMARISED[1]) == (1100, 89)


def test_sam_pays_for_the_turn_that_recalls_and_not_for_paging() -> None:
    """A window of 256: over 128 tokens the past is paged, a page has at most 60."""
    method, summariser = Sam(TokenCounts(ScriptedTokenizer(), window=256)), RecordingSummariser()
    state = method.begin()
    past = [USER, *exchange("a", "key_7"), *exchange("b", LINE * 8)]
    paged = method.rewrite(read_request(past), state, summariser)
    assert len(state.pages) == 2
    assert tokens(paged) == (200, 20)

    found = method.rewrite(read_request([*past, *exchange("c", "r", '{"x": "key_7"}')]), state, summariser)
    # Behind the task: \n\n ## Pages of the past \n\n are 7, twice Page _ 0 : in short 6, and \n\n between them.
    shown = 6 + 7 + 2 * 6 + 1 + 34 + 4
    # {" argume nts ": {" intent ": " key_ 7 ", " page ": _ 0 }, " name ": " recall "}
    assert tokens(found) == (shown + SUMMARISED[0], 23 + SUMMARISED[1]) == (164, 33)


def test_acm_pays_for_the_turns_that_archive_and_query() -> None:
    """A window of 256: after 64 tokens a summary is due."""
    method, summariser = Acm(TokenCounts(ScriptedTokenizer(), window=256)), RecordingSummariser()
    state = method.begin()
    past = [USER, *exchange("a", "key_7"), *exchange("b", LINE * 3)]
    archived = method.rewrite(read_request(past), state, summariser)
    # {" argume nts ": {}, " name ": " manage _conte xt "}
    assert tokens(archived) == (6 + 29 + 27 + 30 + 4 + SUMMARISED[0], 13 + SUMMARISED[1]) == (196, 23)

    found = method.rewrite(read_request([*past, *exchange("c", "r", '{"x": "key_7"}')]), state, summariser)
    # Behind the task: \n\n ## Summar ies so far \n\n Summar y _ 0 : in short
    shown = 6 + 14 + 34 + 4
    # {" argume nts ": {" id ": _ 0 , " query ": " key_ 7 "}, " name ": " query_ memory "}
    assert tokens(found) == (shown + SUMMARISED[0], 24 + SUMMARISED[1]) == (158, 34)

"""The comparison of renderings: what it calls a rewrite by stretches is one, and a template is read as it is meant."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chat_template import Template, is_less
from drsr.request.request import read_request
from tests.tiny_models import tokenizer_json

TOKENS = st.lists(st.integers(0, 2), max_size=7)


@given(TOKENS, TOKENS, st.integers(0, 3))
def test_less_some_stretches_is_what_trying_all_of_them_says(whole: list[int], part: list[int], stretches: int) -> None:
    """The slow twin: every choice of tokens that are kept, with the runs of those that are not counted."""
    found = [
        kept for kept in combinations(range(len(whole)), len(part)) if [whole[place] for place in kept] == list(part)
    ]
    fewest = min((_runs_gone(kept, len(whole)) for kept in found), default=None)
    expected = fewest is not None and fewest <= stretches
    assert is_less(np.array(whole, dtype=np.int32), np.array(part, dtype=np.int32), stretches) == expected


def _runs_gone(kept: tuple[int, ...], length: int) -> int:
    gone = [place not in kept for place in range(length)]
    return sum(here and not before for before, here in zip([False, *gone], gone, strict=False))


REQUEST = read_request(
    {
        "messages": [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "text"},
        ]
    },
    protocol="openai",
    where="a test",
)
KNOWS = "{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %};{% endfor %}{% if add_generation_prompt %}>{% endif %}"  # noqa: E501
KNOWS_NOT = "{% for m in messages %}{{ m['role'] + ':' + m['content'] }};{% endfor %}"


def test_a_template_is_given_arguments_as_values() -> None:
    template = Template(KNOWS, tokenizers.Tokenizer.from_str(tokenizer_json()))
    assert template.text(REQUEST, prompt=True) == 'user:go;assistant:{"path": "a"};tool:text;>'


def test_a_template_that_knows_no_calls_gets_them_as_text() -> None:
    template = Template(KNOWS_NOT, tokenizers.Tokenizer.from_str(tokenizer_json()))
    call = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'
    assert template.text(REQUEST, prompt=False) == f"user:go;assistant:{call};tool:text;"

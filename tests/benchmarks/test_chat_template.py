"""The comparison of renderings: what it calls a rewrite by stretches is one, and a template is read as it is meant."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import gguf
import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chat_template import Template, is_less, template_of
from drsr.errors import InputError
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


def test_a_template_is_read_from_a_gguf_file_or_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "plain.jinja").write_text(KNOWS)
    assert template_of(tmp_path / "plain.jinja") == KNOWS
    for name, template in (("with.gguf", KNOWS), ("without.gguf", None)):
        writer = gguf.GGUFWriter(tmp_path / name, "llama")
        if template is not None:
            writer.add_chat_template(template)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    assert template_of(tmp_path / "with.gguf") == KNOWS
    with pytest.raises(InputError, match="carries no chat template"):
        template_of(tmp_path / "without.gguf")

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.tokenizers.hf_added_tokens import read_named_tokens
from mrs.export.tokenizers.template_files import (
    MAX_TEMPLATE_BYTES,
    ChatTemplates,
    read_chat_templates,
)
from tests.export.tokenizers.hf_folders import write_json

NAMED = [
    {"name": "default", "template": "usual"},
    {"name": "tool_use", "template": "tools"},
]


def read(folder: Path) -> ChatTemplates:
    return read_chat_templates(folder, read_named_tokens(folder).config)


def write_files(folder: Path, **templates: str) -> None:
    """``usual`` is the usual one."""
    for name, text in templates.items():
        path = folder / "additional_chat_templates" / f"{name}.jinja"
        if name == "usual":
            path = folder / "chat_template.jinja"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


def test_the_file_of_its_own_comes_first(tmp_path: Path) -> None:
    write_json(
        tmp_path, tokenizer_config={"chat_template": "b"}, chat_template={"chat_template": "c"}
    )
    assert read(tmp_path) == ChatTemplates("b", {}, "tokenizer_config.json")
    write_files(tmp_path, usual="a")
    assert read(tmp_path) == ChatTemplates("a", {}, "chat_template.jinja")


def test_the_older_file_comes_last(tmp_path: Path) -> None:
    write_json(tmp_path, chat_template={"chat_template": "c"})
    assert read(tmp_path) == ChatTemplates("c", {}, "chat_template.json")


@pytest.mark.parametrize("value", [None, "", []])
def test_a_folder_may_have_none(tmp_path: Path, value: Any) -> None:
    write_json(tmp_path, tokenizer_config={"chat_template": value})
    assert read(tmp_path).default is None
    assert read(tmp_path).named == {}


def test_a_list_has_a_usual_one_and_others(tmp_path: Path) -> None:
    write_json(tmp_path, tokenizer_config={"chat_template": NAMED})
    assert read(tmp_path) == ChatTemplates("usual", {"tool_use": "tools"}, "tokenizer_config.json")


def test_files_beside_the_usual_one_have_names(tmp_path: Path) -> None:
    write_files(tmp_path, usual="usual", tool_use="tools", rag="documents")
    assert read(tmp_path) == ChatTemplates(
        "usual", {"rag": "documents", "tool_use": "tools"}, "chat_template.jinja"
    )


def test_a_single_one_is_the_usual_one_whatever_its_name(tmp_path: Path) -> None:
    write_json(tmp_path, tokenizer_config={"chat_template": NAMED[1:]})
    assert read(tmp_path) == ChatTemplates("tools", {}, "tokenizer_config.json (tool_use)")


def test_of_several_without_a_usual_one_none_is_guessed(tmp_path: Path) -> None:
    others = [NAMED[1], {"name": "rag", "template": "documents"}]
    write_json(tmp_path, tokenizer_config={"chat_template": others})
    assert read(tmp_path).default is None
    assert dict(read(tmp_path).named) == {"tool_use": "tools", "rag": "documents"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (7, "neither a text nor a list"),
        ({"default": "a"}, "neither a text nor a list"),
        (["a"], "no name"),
        ([{"name": "a"}], "no template"),
        ([{"name": "../a", "template": "b"}, NAMED[0]], "no file can have"),
        ([{"name": "", "template": "b"}, NAMED[0]], "no file can have"),
    ],
)
def test_a_malformed_entry_is_refused(tmp_path: Path, value: Any, words: str) -> None:
    write_json(tmp_path, tokenizer_config={"chat_template": value})
    with pytest.raises(CheckpointError, match=words):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"\xff", b"a" * (MAX_TEMPLATE_BYTES + 1)])
def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=r"chat_template\.jinja"):
        read(tmp_path)


def test_line_ends_are_those_of_unix(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"a\r\nb\rc")
    assert read(tmp_path).default == "a\nb\nc"


def test_a_nested_value_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template":' + "[" * 10**5)
    with pytest.raises(CorruptCheckpointError):
        read(tmp_path)


def test_an_empty_template_is_none(tmp_path: Path) -> None:
    write_files(tmp_path, usual="")
    assert read(tmp_path) == ChatTemplates()

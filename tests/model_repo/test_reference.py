from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrs.errors import InvalidReferenceError
from mrs.model_repo.reference import (
    ModelReference,
    check_name,
    is_name,
    name_from,
    parse_reference,
)

names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,95}", fullmatch=True)
numbers = st.none() | st.integers(1, 999_999_999)


@given(names, numbers)
def test_a_reference_survives_being_written_and_read(name: str, number: int | None) -> None:
    reference = ModelReference(name, number)
    assert parse_reference(str(reference)) == reference


@given(st.text())
@example("..")
@example("a:1\n")
@example("a:١")
def test_any_text_is_a_reference_written_just_so_or_a_path_or_refused(text: str) -> None:
    try:
        parsed = parse_reference(text)
    except InvalidReferenceError:
        return
    if isinstance(parsed, ModelReference):
        assert str(parsed) == text
        assert os.path.normpath(f"/root/{parsed.name}") == f"/root/{parsed.name}"
        assert "/" not in parsed.name
    else:
        assert "/" in text or text in {".", "..", "~"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("smollm2", ModelReference("smollm2")),
        ("smollm2-135m:12", ModelReference("smollm2-135m", 12)),
        ("./smollm2", Path("smollm2")),
        ("models/smollm2/3", Path("models/smollm2/3")),
        ("/srv/m", Path("/srv/m")),
        ("..", Path("..")),
    ],
)
def test_what_a_text_means(text: str, expected: ModelReference | Path) -> None:
    assert parse_reference(text) == expected


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert parse_reference("~/m") == Path("/home/someone/m")


@pytest.mark.parametrize(
    "text", ["", "m:0", "m:01", "m:-1", "m:+1", "m: 1", "m:1.0", "m:", "m:latest", "m:1:2", ":1"]
)
def test_a_malformed_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidReferenceError):
        parse_reference(text)


@pytest.mark.parametrize("name", ["", "A", "-a", ".a", "_a", "a b", "a\n", "é", "a:1", "a" * 97])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidReferenceError):
        check_name(name)


def test_a_name_in_capitals_is_answered_with_the_name_to_use() -> None:
    with pytest.raises(InvalidReferenceError) as caught:
        check_name("SmolLM2 135M")
    assert "smollm2-135m" in caught.value.hint


@given(st.text())
def test_a_name_made_from_any_text_is_a_name_or_empty(text: str) -> None:
    assert name_from(text) == "" or is_name(name_from(text))


@given(names)
def test_a_name_made_from_a_name_only_loses_final_punctuation(name: str) -> None:
    assert name_from(name) == name.rstrip("._-")

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import UsageError
from mrs.export.sources.hub_reference import (
    HubReference,
    looks_like_hub_reference,
    parse_hub_reference,
)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("org/name", HubReference("org/name")),
        ("Org-1/Name_2.5", HubReference("Org-1/Name_2.5")),
        ("org/name@v1.0", HubReference("org/name", "v1.0")),
        ("org/name@refs/pr/3", HubReference("org/name", "refs/pr/3")),
        ("org/name:m.Q4_0.gguf", HubReference("org/name", "main", "m.Q4_0.gguf")),
        ("org/name@v1:q4/m.gguf", HubReference("org/name", "v1", "q4/m.gguf")),
    ],
)
def test_the_parts_of_a_reference(text: str, reference: HubReference) -> None:
    assert looks_like_hub_reference(text)
    assert parse_hub_reference(text) == reference
    assert str(reference) == text


@pytest.mark.parametrize(
    "text",
    [
        "org/na--me",
        "org/na..me",
        "o" * 60 + "/" + "n" * 60,
        "org/name@",
        "org/name@../x",
        "org/name@/x",
        "org/name@-x",
        "org/name@a b",
        "org/name@x/",
        "org/name:",
        "org/name:m.safetensors",
    ],
)
def test_what_is_malformed_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_hub_reference(text)
    assert "ORG/NAME" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "./org/name",
        "../name",
        "/org/name",
        "~/name",
        "a/b/c",
        "org/",
        "org/m.gguf",
        "org/M.GGUF",
        "models/model.safetensors",
        "org/.name",
        "",
    ],
)
def test_paths_are_no_references(text: str) -> None:
    assert not looks_like_hub_reference(text)


@given(st.text(alphabet="ab1/@:._-~ \n\0é", max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        reference = parse_hub_reference(text)
    except UsageError:
        return
    assert text.startswith(reference.repository)
    assert ".." not in reference.revision
    assert reference.file is None or reference.file.endswith(".gguf")


def test_a_whole_commit_is_pinned() -> None:
    assert HubReference("a/b", "0123456789" * 4).is_pinned
    assert not HubReference("a/b", "0123456").is_pinned
    assert not HubReference("a/b").is_pinned

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.cli.console import (
    format_seconds,
    format_size,
    plural,
    print_json,
    printable,
    write_answer,
)


@given(st.text())
def test_printable_text_is_printable_and_can_be_written(text: str) -> None:
    result = printable(text)
    assert result.isprintable()
    result.encode("utf-8")


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (0.35, "0.3 s"), (59.9, "59.9 s"), (60, "1 min 0 s"), (125.4, "2 min 5 s")],
)
def test_times(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (98_100_000, "98.1 MB")]
)
def test_sizes_are_decimal(size: int, text: str) -> None:
    assert format_size(size) == text


def test_plurals() -> None:
    assert [plural(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_json_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"é": "\udc80"})
    assert capsys.readouterr().out == '{\n  "\\u00e9": "\\udc80"\n}\n'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ANSWER = "one\r\n\ttwo \x1b[2J\x07\x9b \U0001f469\u200d\U0001f4bb \r"


def test_an_answer_cannot_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    write_answer(ANSWER)
    expected = "one\n\ttwo \\x1b[2J\\x07\\x9b \U0001f469\u200d\U0001f4bb \\r"
    assert terminal.getvalue() == expected


def test_an_answer_reaches_a_file_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", file := io.StringIO(newline=""))
    write_answer(ANSWER)
    assert file.getvalue() == ANSWER

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from mrs.cli.progress import ConsoleProgress, make_progress


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    made = Console(
        file=file, force_terminal=terminal, width=80, soft_wrap=True, legacy_windows=False
    )
    return made, file


def without_times(text: str) -> str:
    return re.sub(r"[0-9.]+ s\b", "T", text)


def visible(text: str) -> str:
    """What is left of terminal output without its control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text)


def cursor_is_shown(text: str) -> bool:
    return text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") >= 0


def test_without_a_terminal_a_phase_is_one_line() -> None:
    made, file = console(terminal=False)
    progress = ConsoleProgress(made)
    with progress.phase("Read", total=10, unit="bytes") as advance:
        assert file.getvalue() == "Read ... "
        advance(10)
    assert without_times(file.getvalue()) == "Read ... done in T\n"


def test_without_a_terminal_nested_phases_each_get_their_lines() -> None:
    made, file = console(terminal=False)
    progress = ConsoleProgress(made)
    with progress.phase("Fetch"), progress.phase("Unpack"):
        pass
    expected = "Fetch ... \nUnpack ... done in T\nFetch ... done in T\n"
    assert without_times(file.getvalue()) == expected


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_without_a_terminal_a_failed_phase_ends_its_line(error: type[BaseException]) -> None:
    made, file = console(terminal=False)
    with pytest.raises(error), ConsoleProgress(made).phase("Read"):
        raise error
    assert file.getvalue() == "Read ... failed\n"


def test_a_terminal_sees_a_bar_then_a_line_with_the_amount() -> None:
    made, file = console(terminal=True)
    with ConsoleProgress(made).phase("Hash", total=2_000_000, unit="bytes") as advance:
        advance(500_000)
        advance(1_500_000)
    shown = visible(file.getvalue())
    assert "0 bytes of 2.0 MB" in shown
    assert "Hash: 2.0 MB in T\n" in without_times(shown)
    assert cursor_is_shown(file.getvalue())


def test_a_terminal_counts_items() -> None:
    made, file = console(terminal=True)
    with ConsoleProgress(made).phase("Write weights", total=30) as advance:
        advance(3)
    assert "0/30" in visible(file.getvalue())
    assert "Write weights: done in T\n" in without_times(visible(file.getvalue()))


def test_a_terminal_sees_nested_phases() -> None:
    made, file = console(terminal=True)
    progress = ConsoleProgress(made)
    with progress.phase("Fetch"), progress.phase("Unpack"):
        pass
    lines = without_times(visible(file.getvalue()))
    assert lines.index("Unpack: done in T") < lines.index("Fetch: done in T")


def test_a_phase_that_fails_on_a_terminal_leaves_no_line_and_the_cursor() -> None:
    made, file = console(terminal=True)
    with pytest.raises(ValueError), ConsoleProgress(made).phase("Read"):
        raise ValueError
    assert "Read: " not in visible(file.getvalue())
    assert cursor_is_shown(file.getvalue())


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    made, file = console(terminal=True)
    with ConsoleProgress(made).phase("Read"):
        pass
    assert without_times(visible(file.getvalue())) == "Read ... done in T\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_label_cannot_control_the_terminal(terminal: bool) -> None:
    made, file = console(terminal=terminal)
    with ConsoleProgress(made).phase("Read \x1b]0;title\x07 [bold]"):
        pass
    assert "\x1b]0" not in file.getvalue()
    assert r"Read \x1b]0;title\x07 [bold]" in file.getvalue()


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with make_progress(silent=True).phase("Read") as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")

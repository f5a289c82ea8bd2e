from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mrs import __version__
from mrs.cli.app import invoke
from mrs.errors import (
    CheckpointError,
    EngineError,
    MrsError,
    RepositoryError,
    SourceError,
    StorageError,
    UsageError,
)
from tests.cli.conftest import Mrs

HEAVY = {
    *("numpy", "onnx", "onnx_ir", "onnxruntime", "gguf", "torch", "tokenizers", "jinja2"),
    *("fastapi", "starlette", "uvicorn", "pydantic", "rich", "asyncio"),
}


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `mrs models list` raise ``error``."""

    def fail(repo: object) -> None:
        raise error

    monkeypatch.setattr("mrs.cli.models.open_repository", fail)


def in_a_process(
    code: str, *, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from mrs.cli.app import invoke; invoke(['--help']); print(*sys.modules)"
    result = in_a_process(code)
    assert "Usage: mrs" in result.stdout
    assert HEAVY.isdisjoint(result.stdout.split())


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_told(mrs: Mrs, flag: str) -> None:
    assert mrs(flag).out == f"mrs {__version__}\n"


@pytest.mark.parametrize("command", [[], ["export"], ["models"], ["models", "verify"]])
def test_every_command_has_help(mrs: Mrs, command: list[str]) -> None:
    result = mrs(*command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: {' '.join(['mrs', *command])}")
    assert mrs(*command, "-h").out == result.out


@pytest.mark.parametrize("command", [[], ["models"]])
def test_no_command_shows_the_help_as_a_usage_error(mrs: Mrs, command: list[str]) -> None:
    result = mrs(*command)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: mrs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'."),
        (["export"], "Missing argument 'SOURCE'."),
        (["models", "list", "--bogus"], "No such option: --bogus"),
    ],
)
def test_wrong_usage_exits_with_2_and_the_way_to_the_help(
    mrs: Mrs, arguments: list[str], message: str
) -> None:
    result = mrs(*arguments)
    assert result.code == 2
    assert result.err.startswith(f"error[invalid_usage]: {message}\nhelp: See `mrs")


def test_wrong_usage_is_json_too(mrs: Mrs) -> None:
    result = mrs("models", "list", "--json", "--bogus")
    assert result.code == 2
    assert result.json["error"]["code"] == "invalid_usage"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (SourceError, 3),
        (CheckpointError, 4),
        (RepositoryError, 5),
        (StorageError, 6),
        (EngineError, 7),
    ],
)
def test_an_error_is_two_lines_and_its_exit_code(
    mrs: Mrs, monkeypatch: pytest.MonkeyPatch, kind: type[MrsError], code: int
) -> None:
    fail_with(kind("It is [broken].", hint="Mend it."), monkeypatch)
    result = mrs("models", "list")
    assert (result.code, result.out) == (code, "")
    assert result.err == f"error[{kind.code}]: It is [broken].\nhelp: Mend it.\n"


def test_an_error_without_a_hint_is_one_line(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(SourceError("Gone."), monkeypatch)
    assert mrs("models", "list").err == "error[source_error]: Gone.\n"


def test_an_error_is_json_on_stdout_where_that_was_asked_for(
    mrs: Mrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(SourceError("Gone.", hint="Look."), monkeypatch)
    result = mrs("models", "list", "--json")
    assert result.json == {"error": {"code": "source_error", "message": "Gone.", "hint": "Look."}}
    assert result.err.startswith("error[source_error]: Gone.\n")


def test_an_error_cannot_move_the_cursor_or_forge_a_line(
    mrs: Mrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(SourceError("a\x1b[2Jb\nerror[fake]: c\u202ed"), monkeypatch)
    expected = r"error[source_error]: a\x1b[2Jb\nerror[fake]: c\u202ed" + "\n"
    assert mrs("models", "list").err == expected


def test_a_long_error_stays_on_its_line(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(SourceError("x" * 300), monkeypatch)
    assert mrs("models", "list").err == f"error[source_error]: {'x' * 300}\n"


def test_a_bug_says_so_and_how_to_report_it(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MRS_DEBUG", raising=False)
    fail_with(ZeroDivisionError("one\ntwo"), monkeypatch)
    result = mrs("models", "list", "--json")
    assert result.code == 70
    first, second = result.err.splitlines()
    assert first == "error[internal_error]: ZeroDivisionError: one"
    assert "bug in mrs" in second
    assert "MRS_DEBUG=1" in second
    assert result.json["error"]["code"] == "internal_error"


def test_the_stack_trace_of_a_bug_is_there_for_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MRS_DEBUG", "1")
    fail_with(ZeroDivisionError("one"), monkeypatch)
    assert invoke(["models", "list"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_refusal_of_the_system_is_no_bug(
    mrs: Mrs, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fail_with(OSError(number, "Refused", "/some/file"), monkeypatch)
    result = mrs("models", "list")
    assert result.code == 6
    assert result.err.startswith("error[storage_error]: /some/file: Refused.\nhelp: ")


def test_an_interrupt_is_quiet(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    result = mrs("models", "list")
    assert (result.code, result.out, result.err) == (130, "", "")


@pytest.mark.parametrize("arguments", ["'models', 'list', '--json'", "'--help'", "'-V'"])
def test_a_reader_that_leaves_is_no_reason_to_complain(arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = in_a_process(f"from mrs.cli.app import main; main([{arguments}])", stdout=writing)
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ("'-V'", 6, "error[storage_error]: The standard input or output failed: No space left"),
        ("'models', 'list', '--json'", 6, "error[storage_error]: The standard input or output"),
        ("'models', 'show', 'none', '--json'", 5, "error[model_not_found]: "),
    ],
)
def test_a_full_stdout_is_an_error_without_a_stack_trace(
    arguments: str, code: int, error: str, tmp_path: Path
) -> None:
    program = f"from mrs.cli.app import main; main([{arguments}])"
    with Path("/dev/full").open("w") as full:
        result = in_a_process(program, stdout=full.fileno(), MRS_MODEL_REPO=str(tmp_path))
    assert result.returncode == code
    assert result.stderr.startswith(error)
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize("stream", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_streams_may_be_closed(stream: str, tmp_path: Path) -> None:
    command = f'{sys.executable} -m mrs models list --repo "{tmp_path}" {stream}'
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_any_text_can_be_written_in_any_encoding(tmp_path: object) -> None:
    code = "from mrs.cli.app import main; main(['models', 'show', 'modèle'])"
    result = in_a_process(code, PYTHONIOENCODING="ascii")
    assert result.returncode == 5
    assert result.stderr.startswith(r"error[invalid_reference]: 'mod\xe8le' is not")


def test_no_color_means_none(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in mrs("bogus").err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in mrs("bogus").err

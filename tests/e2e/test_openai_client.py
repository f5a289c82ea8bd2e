"""The real openai client against a real server with a real model."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from tests.e2e.server_process import ServerProcess

QUESTIONS = (
    "Hi!",
    "Why is the sky blue?",
    "Name three fruits.",
    "Write a short poem about the sea and the wind.",
    "What is the capital of France?",
    "Explain in one paragraph how a bicycle stays upright when somebody rides it slowly.",
    "Translate 'good morning' into Spanish.",
    "List the planets of the solar system in order, each with one fact.",
)


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> OpenAI:
    return server.client()


def ask(client: OpenAI, question: str = "Why is the sky blue?", **options: Any) -> Any:
    return client.chat.completions.create(
        model="default", messages=[{"role": "user", "content": question}], **options
    )


def streamed(client: OpenAI, **options: Any) -> tuple[dict[int, str], dict[int, str], Any]:
    """Texts and finish reasons by choice, and the usage, of a streamed answer."""
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    usage = None
    for chunk in ask(client, stream=True, stream_options={"include_usage": True}, **options):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                assert choice.index not in reasons
                reasons[choice.index] = choice.finish_reason
    return texts, reasons, usage


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0, "max_tokens": 24},
        {"seed": 5, "max_tokens": 24},
        {"seed": 5, "max_tokens": 24, "temperature": 1.4, "top_p": 0.8},
        {"seed": -3, "max_tokens": 24, "extra_body": {"top_k": 20}},
        {"seed": 9, "max_tokens": 12, "n": 3},
        {"temperature": 0, "max_tokens": 60, "stop": ["scatter", "\n\n"]},
        {"temperature": 0, "question": "Hi!", "max_completion_tokens": 60},
    ],
)
def test_streamed_and_unstreamed_answers_are_equal(client: OpenAI, options: dict[str, Any]) -> None:
    whole = ask(client, **options)
    texts, reasons, usage = streamed(client, **options)
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [getattr(usage, count) for count in counts] == [
        getattr(whole.usage, count) for count in counts
    ]


def test_seeds_decide_the_answer(client: OpenAI) -> None:
    answers = [
        ask(client, seed=seed, max_tokens=16).choices[0].message.content for seed in (1, 1, 2)
    ]
    assert answers[0] == answers[1] != answers[2]


def test_usage_counts_the_tokens_of_prompt_and_answer(client: OpenAI) -> None:
    answer = ask(client, "Hi!", max_tokens=7, temperature=0)
    longer = ask(client, "Hi! Hi!", max_tokens=1)
    # " Hi" and "!" are a token each.
    assert longer.usage.prompt_tokens - answer.usage.prompt_tokens == 2
    assert answer.usage.completion_tokens == 7
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 7
    assert answer.choices[0].finish_reason == "length"


def test_a_stop_string_never_shows(client: OpenAI) -> None:
    free = ask(client, temperature=0, max_tokens=60).choices[0].message.content
    stop = free[20:32]
    answer = ask(client, temperature=0, max_tokens=60, stop=stop).choices[0]
    assert answer.message.content == free[: free.index(stop)]
    assert answer.finish_reason == "stop"


def test_sixteen_at_once_each_equal_their_solo_run(client: OpenAI, server: ServerProcess) -> None:
    """Requests of different lengths join and leave the batch; none sees the others."""
    jobs = [(QUESTIONS[i % 8] + " Please." * (i // 8), 4 + 2 * i) for i in range(16)]

    def run(job: tuple[str, int]) -> tuple[str, str, int]:
        answer = ask(client, job[0], temperature=0, max_tokens=job[1])
        choice = answer.choices[0]
        return choice.message.content, choice.finish_reason, answer.usage.completion_tokens

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(run, jobs))
    assert together == [run(job) for job in jobs]
    assert server.health()["running"] == 0


def test_more_requests_than_slots_are_all_answered(client: OpenAI) -> None:
    with ThreadPoolExecutor(24) as pool:
        answers = list(
            pool.map(lambda i: ask(client, f"Say {i}.", max_tokens=4, temperature=0), range(24))
        )
    assert all(0 < answer.usage.completion_tokens <= 4 for answer in answers)


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": "Hi"}])
    assert error.value.code == "model_not_found"


def test_the_models_list_names_the_model(client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert ask(client, max_tokens=1).model == model.id


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, "word " * 3000)
    assert error.value.code == "context_length_exceeded"
    assert "2048" in error.value.message
    assert "30" in error.value.message


def test_special_tokens_in_user_text_are_text(client: OpenAI) -> None:
    """A message cannot end its own turn: the literal costs several tokens, not one."""
    plain = ask(client, "x", max_tokens=1).usage.prompt_tokens
    smuggled = ask(client, "x<|im_end|>", max_tokens=1).usage.prompt_tokens
    assert smuggled - plain > 1


def test_an_answer_may_fill_the_context_and_ends_with_length(client: OpenAI) -> None:
    """Prompt and answer meet the end of the context; the last position is used."""
    base = ask(client, "go " * 1950, max_tokens=1).usage.prompt_tokens
    room = 2048 - base
    answer = ask(client, "go " * 1950, temperature=0, max_tokens=room)
    assert answer.usage.total_tokens <= 2048
    with pytest.raises(openai.BadRequestError):
        ask(client, "go " * 1950, max_tokens=room + 1)


def wait_until_idle(server: ServerProcess) -> None:
    """Every look at /health is a round trip; the engine needs one step to let go."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        health = server.health()
        if health["running"] == 0 and health["waiting"] == 0:
            return
    raise AssertionError(f"still busy: {health}")


def test_a_client_that_leaves_its_stream_frees_the_slot(
    client: OpenAI, server: ServerProcess
) -> None:
    stream = ask(client, "Write a very long story.", stream=True, max_tokens=1900)
    next(iter(stream))
    assert server.health()["running"] == 1
    stream.close()
    wait_until_idle(server)


def test_a_client_that_leaves_while_waiting_for_a_whole_answer_frees_the_slot(
    server: ServerProcess,
) -> None:
    body = {
        "messages": [{"role": "user", "content": "Write a very long story."}],
        "max_tokens": 1900,
    }
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=1.0)
    wait_until_idle(server)


def test_a_second_turn_computes_only_what_is_new(client: OpenAI) -> None:
    """Its answer is the one that it would have been without what the first turn left behind."""
    first = "Tell me about the tides, step by step."
    options: dict[str, Any] = {"model": "default", "temperature": 0, "max_tokens": 24}
    opening = [{"role": "user", "content": first}]
    answer = client.chat.completions.create(messages=opening, **options)
    turns = [
        *opening,
        {"role": "assistant", "content": answer.choices[0].message.content},
        {"role": "user", "content": "And how high do they get?"},
    ]
    alone = client.chat.completions.create(
        messages=turns, extra_body={"cache_salt": "alone"}, **options
    )
    second = client.chat.completions.create(messages=turns, **options)
    assert alone.usage.prompt_tokens_details.cached_tokens == 0
    cached = second.usage.prompt_tokens_details.cached_tokens
    # The prompt of the first turn, and its answer but for the last token.
    assert cached >= answer.usage.prompt_tokens
    assert cached < second.usage.prompt_tokens
    assert second.choices[0].message.content == alone.choices[0].message.content


def test_penalties_and_biases_reach_the_model(client: OpenAI) -> None:
    plain = ask(client, temperature=0, max_tokens=8).choices[0].message.content
    penalized = ask(
        client, temperature=0, max_tokens=40, frequency_penalty=2, presence_penalty=2
    ).choices[0]
    banned = ask(client, temperature=0, max_tokens=8, logit_bias={"504": -100}).choices[0]
    assert plain.startswith("The")
    assert not banned.message.content.startswith("The")
    words = penalized.message.content.split()
    assert len(set(words)) > 0.8 * len(words)


def test_logprobs_are_those_of_the_model(client: OpenAI) -> None:
    whole = ask(client, temperature=0, max_tokens=6, logprobs=True, top_logprobs=3).choices[0]
    entries = whole.logprobs.content
    assert len(entries) == 6
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == whole.message.content
    for entry in entries:
        # Greedy: what was drawn is the likeliest.
        assert entry.top_logprobs[0].token == entry.token
        assert entry.logprob == entry.top_logprobs[0].logprob <= 0
        assert [other.logprob for other in entry.top_logprobs] == sorted(
            (other.logprob for other in entry.top_logprobs), reverse=True
        )

"""One run of a load test: warm-up, requests, figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing

import orjson

from mrs.errors import EngineError
from mrs.load_test.completion import Outcome, Target, complete
from mrs.load_test.http_stream import ServerAddress, ServerReplyError, request
from mrs.load_test.load import Rate, Streams
from mrs.load_test.prompts import prompt
from mrs.load_test.report import Objective, Report, report

_WARM_UP = 1 << 30
"""Number of the first prompt, which is not one of those that are measured."""


async def run_load(
    target: Target,
    load: Streams | Rate,
    *,
    requests: int,
    prompt_tokens: int,
    objective: Objective,
    first: int = 0,
    on_request: Callable[[], None] = lambda: None,
) -> Report:
    """Measure a server under a load.

    Args:
        target: whom to ask for what.
        load: when requests are made.
        requests: how many.
        prompt_tokens: about so many in each prompt.
        objective: what counts as fast.
        first: number of the first prompt: of two runs with other numbers, none repeats a prompt.
        on_request: called after each answer.
    """

    async def ask(number: int) -> Outcome:
        outcome = await complete(target, prompt(prompt_tokens, first + number))
        on_request()
        return outcome

    start = time.perf_counter()
    outcomes = await load.run(ask, requests)
    return report(outcomes, time.perf_counter() - start, objective)


async def warm_up(target: Target, prompt_tokens: int) -> None:
    """Make one request: what a server does at its first is not measured, and failures are told.

    Raises:
        EngineError: there is no answer.
    """
    outcome = await complete(target, prompt(prompt_tokens, _WARM_UP))
    if not outcome.ok:
        raise EngineError(
            f"No answer from {target.address.host}:{target.address.port}: {outcome.error}.",
            hint="Check the URL, --model and --api-key.",
        )


async def first_model(address: ServerAddress, api_key: str = "") -> str:
    """The first model that a server lists.

    Raises:
        EngineError: it lists none, or cannot be asked.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    body = b""
    try:
        async with aclosing(request(address, "GET", "/v1/models", headers=headers)) as pieces:
            async for piece in pieces:
                body += piece
        return str(orjson.loads(body)["data"][0]["id"])
    except (OSError, ServerReplyError) as error:
        reason = str(error) or type(error).__name__
    except (ValueError, LookupError, TypeError):
        reason = "what it lists is no list of models"
    raise EngineError(
        f"The models of {address.host}:{address.port} are unknown: {reason}.",
        hint="Check the URL, or name the model with --model.",
    )

"""Responses that need no connection: ``python examples/responses_background.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install openai``. The first response is polled until
it is done, the second is cancelled, and the third is streamed, left, and taken up again.
"""

from __future__ import annotations

import sys
import time

from openai import OpenAI


def main(url: str) -> None:
    """Poll, cancel, and come back."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")

    response = client.responses.create(
        model="default",
        input="Why is the sky blue?",
        background=True,
        max_output_tokens=60,
        temperature=0,
    )
    while response.status in ("queued", "in_progress"):
        time.sleep(0.2)
        response = client.responses.retrieve(response.id)
    print(f"{response.status}: {response.output_text}")

    unwanted = client.responses.create(
        model="default", input="Write a long story.", background=True
    )
    print(f"{client.responses.cancel(unwanted.id).status}: the server does no more for it")

    last = response_id = None
    text = ""
    for event in client.responses.create(
        model="default",
        input="Name three fruits.",
        background=True,
        stream=True,
        max_output_tokens=40,
        temperature=0,
    ):
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            text += event.delta
            last = event.sequence_number
            break
    assert response_id is not None and last is not None
    for event in client.responses.retrieve(response_id, stream=True, starting_after=last):
        if event.type == "response.output_text.delta":
            text += event.delta
    same = text == client.responses.retrieve(response_id).output_text
    print(f"left and taken up, {'nothing' if same else 'something'} is missing: {text}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")

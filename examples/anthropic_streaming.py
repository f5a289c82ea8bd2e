"""Stream an answer with Anthropic's client: ``python examples/anthropic_streaming.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install anthropic``.
"""

from __future__ import annotations

import sys

from anthropic import Anthropic


def main(url: str) -> None:
    """Ask one question and print the answer as it is made."""
    client = Anthropic(base_url=url, api_key="none")
    with client.messages.stream(
        model="default",
        max_tokens=80,
        system="Answer in one sentence.",
        messages=[{"role": "user", "content": "Why is the sky blue?"}],
    ) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
        message = stream.get_final_message()
    used = message.usage
    print(f"\n\n{message.stop_reason}: {used.input_tokens} tokens in, {used.output_tokens} out")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")

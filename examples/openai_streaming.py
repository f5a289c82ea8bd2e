"""Print an answer while it is written: ``python examples/openai_streaming.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install openai``. What a model thinks before it
answers, if it does, comes apart from the answer.
"""

from __future__ import annotations

import sys

from openai import OpenAI


def main(url: str) -> None:
    """Ask, and print each piece as it comes."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    stream = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Count from one to ten, in words."}],
        max_tokens=100,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        for choice in chunk.choices:
            thought = getattr(choice.delta, "reasoning_content", None)
            print(thought or choice.delta.content or "", end="", flush=True)
        if chunk.usage is not None:
            print(f"\n{chunk.usage.completion_tokens} tokens")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")

"""Ask a model a question with the openai client: ``python examples/openai_chat.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install openai``.
"""

from __future__ import annotations

import sys

from openai import OpenAI


def main(url: str) -> None:
    """Ask, and print the answer and what it cost."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    completion = client.chat.completions.create(
        model="default",
        messages=[
            {"role": "system", "content": "You answer in one short sentence."},
            {"role": "user", "content": "What is the capital of France?"},
        ],
        max_tokens=60,
        temperature=0,
    )
    print(completion.choices[0].message.content)
    if completion.usage is not None:
        print(f"{completion.usage.prompt_tokens} + {completion.usage.completion_tokens} tokens")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")

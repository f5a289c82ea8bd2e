"""Get an answer as an object of one's own: ``python examples/openai_structured_output.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install openai``. The schema of a pydantic model goes
to the server, which lets the model write nothing else; what comes back is such an object.
"""

from __future__ import annotations

import sys
from typing import Literal

from openai import OpenAI
from pydantic import BaseModel, Field


class Animal(BaseModel):
    """An animal that a text tells of."""

    name: str = Field(max_length=30)
    kind: Literal["bird", "fish", "mammal", "other"]
    legs: int = Field(ge=0, le=8)


def main(url: str) -> None:
    """Ask, and print the object."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    completion = client.chat.completions.parse(
        model="default",
        messages=[{"role": "user", "content": "Describe the dog Rex, who has four legs, as JSON."}],
        response_format=Animal,
        max_tokens=200,
        temperature=0,
    )
    animal = completion.choices[0].message.parsed
    print(repr(animal))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")

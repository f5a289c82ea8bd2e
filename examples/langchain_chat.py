"""LangChain through its OpenAI provider: ``python examples/langchain_chat.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install langchain-openai``.
"""

from __future__ import annotations

import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def main(url: str) -> None:
    """Stream an answer, then let the model call a tool."""
    model = ChatOpenAI(
        base_url=f"{url}/v1", api_key="none", model="default", temperature=0, max_tokens=40
    )
    for chunk in model.stream("Name a color."):
        print(chunk.text, end="", flush=True)
    print()
    called = model.bind_tools([add], tool_choice="add").invoke("What is 2 plus 3?")
    for call in called.tool_calls:
        print(call["name"], add.invoke(call["args"]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")

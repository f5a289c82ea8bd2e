"""The text that models are compared on: prose, dialogue, code, numbers and several languages.

It has 1,204 tokens with the tokenizer of SmolLM2. Its digest is recorded beside every figure, since
figures of two texts cannot be compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.export.parity.graph_runner import NotMeasurableError

# Enough for figures that do not depend on luck; more would make the export of a small model slow.
MOST_TOKENS = 2048
# Long enough for attention to matter, short enough that its cache is small.
LONGEST_WINDOW = 512


@dataclass(frozen=True)
class TokenizedText:
    """The text in windows that are computed independently of one another.

    Attributes:
        windows: int64 ``[tokens]`` each; one position predicts the next token of its window.
        sha256: digest of the text, not of the tokens.
    """

    windows: tuple[NDArray[np.int64], ...]
    sha256: str

    @property
    def longest(self) -> int:
        """Tokens of the longest window."""
        return max(len(window) for window in self.windows)

    @property
    def tokens(self) -> int:
        """Tokens of all windows."""
        return sum(len(window) for window in self.windows)


def bundled_text() -> str:
    """The text as it is packaged."""
    return (files(__package__) / "text.txt").read_text(encoding="utf-8")


def tokenize_text(
    tokenizer_json: Path,
    *,
    context_length: int,
    begin_token: int | None,
    text: str | None = None,
    most_tokens: int = MOST_TOKENS,
) -> TokenizedText:
    """Tokenize the text and cut it into windows.

    Args:
        tokenizer_json: the tokenizer of the artifact.
        context_length: the model's; no window is longer.
        begin_token: what each window starts with, as prompts do, if anything.
        text: another text than the bundled one.
        most_tokens: what is beyond is left out.

    Raises:
        NotMeasurableError: the windows hold no two tokens in a row.
    """
    from tokenizers import Tokenizer

    text = bundled_text() if text is None else text
    ids = Tokenizer.from_file(str(tokenizer_json)).encode(text, add_special_tokens=False).ids
    start = [] if begin_token is None else [begin_token]
    length = max(1, min(LONGEST_WINDOW, context_length) - len(start))
    tokens = ids[:most_tokens]
    windows = [start + tokens[at : at + length] for at in range(0, len(tokens), length)]
    windows = [window for window in windows if len(window) > 1]
    if not windows:
        raise NotMeasurableError("the text has no two tokens in a row")
    return TokenizedText(
        windows=tuple(np.array(window, dtype=np.int64) for window in windows),
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
    )

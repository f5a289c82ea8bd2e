"""The space that some vocabularies put before the first word of a text, and only there.

The runtime cuts texts at special tokens before the ``tokenizers`` library sees them, so the library
would take each part for a first one.
"""

from __future__ import annotations

from collections.abc import Iterator

import tokenizers
from tokenizers import pre_tokenizers


def takes_over_space_prefix(backend: tokenizers.Tokenizer) -> bool:
    """Make the library add no first space any more, and say whether the caller must.

    Spaces that the library adds after each special token are left to it.
    """
    found = False
    for step in _steps(backend.pre_tokenizer):
        if isinstance(step, pre_tokenizers.Metaspace) and step.prepend_scheme == "first":
            step.prepend_scheme = "never"
            found = True
    return found


def _steps(pre_tokenizer: object) -> Iterator[object]:
    if not isinstance(pre_tokenizer, pre_tokenizers.Sequence):
        yield pre_tokenizer
        return
    index = 0
    while True:
        try:
            step = pre_tokenizer[index]
        except IndexError:
            return
        yield from _steps(step)
        index += 1

"""Values as the text that a template prints."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import soft_str

from mrs.chat_template.budget import weigh

_ESCAPED_SURROGATE = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89a-f][0-9a-f]{2})")


def text_of(value: Any) -> str:
    """``value`` as a string (one that is marked as safe stays so), paid for.

    Strings within lists and dicts are shown as Python shows them, except that lone surrogates stay
    as they are: the prompt encoder marks user text with them.
    """
    weigh(value)
    text = soft_str(value)
    if isinstance(value, str) or "\\ud" not in text:
        return text
    return _ESCAPED_SURROGATE.sub(lambda m: m.group(1) + chr(int(m.group(2), 16)), text)

"""Model names out of file names."""

from __future__ import annotations

import re
import unicodedata

from mrs.model_repo.reference import name_from

_FALLBACK = "model"

# What tools append to a model's name to tell its quantization: Q4_K_M, IQ4_XS, UD-Q4_K_XL,
# i1-Q4_K_M, Q4_0_4_4, bf16, fp16, MXFP4_MOE, TQ1_0, and the format's own name.
_QUANTIZATION = r"""
    (?: (?:ud[._-])? (?:i1[._-])? i?q[1-8] (?:[_-](?:[0-8k]|xxs|xs|s|m|l|xl|nl|moe))*
      | b?f16 | fp16 | f(?:p)?32 | tq[12]_0 | mxfp4(?:[_-]moe)? | nvfp4 | gguf )
"""
_SUFFIX = re.compile(rf"(?<=.)[._-]{_QUANTIZATION}$", re.VERBOSE | re.IGNORECASE)
_ENDING = re.compile(r"(?:-[0-9]{5}-of-[0-9]{5})?\.gguf$", re.IGNORECASE)


def model_name_from_file(file_name: str) -> str:
    """Name a model after its file or folder, without extension, part number and quantization.

    The name is lower case, of ``[a-z0-9._-]``, 1 to 96 characters, and starts with a letter or
    digit: ``SmolLM2-135M-Instruct.Q4_1.gguf`` is ``smollm2-135m-instruct``.
    """
    stem = _ENDING.sub("", file_name)
    while (shorter := _SUFFIX.sub("", stem)) != stem:
        stem = shorter
    ascii_only = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode("ascii")
    return name_from(ascii_only) or _FALLBACK

"""ONNX Runtime, if there is one that can run what mrs exports."""

from __future__ import annotations

import re
from typing import Any

from mrs.errors import RuntimeUnavailableError

_OLDEST = (1, 32)
_HINT = "Install it: pip install --upgrade 'mrs-onnx[cpu]'."


def import_onnx_runtime() -> Any:
    """The ``onnxruntime`` module.

    Raises:
        RuntimeUnavailableError: it is missing, cannot be loaded or is too old.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"Measuring a model needs ONNX Runtime, which cannot be imported: {error}.", hint=_HINT
        ) from error
    version: str = onnxruntime.__version__
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < _OLDEST:
        raise RuntimeUnavailableError(
            f"Measuring a model needs ONNX Runtime 1.32 or newer; {version} is installed.",
            hint=_HINT,
        )
    return onnxruntime

"""What commands that may export say when the ``[export]`` extra is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mrs.errors import RuntimeUnavailableError

# What the extra installs, by the names of the modules and of the distributions.
_EXTRA = {"gguf", "huggingface_hub", "ml_dtypes", "onnx", "onnx_ir", "onnx-ir", "tqdm"}


@contextmanager
def export_extra_required(what: str) -> Iterator[None]:
    """Explain an ImportError of the extra.

    Args:
        what: what needs the extra, as the start of a sentence.

    Raises:
        RuntimeUnavailableError: a module of the extra is missing.
    """
    try:
        yield
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise RuntimeUnavailableError(
            f"{what} needs {missing}, which is not installed.",
            hint="Install what exports need: pip install 'mrs-onnx[export]'",
        ) from error

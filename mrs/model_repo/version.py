"""A version of a model, as found on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrs.errors import MrsError
from mrs.model_repo.lock import CACHE_SCALES_PATH, ModelLock


@dataclass(frozen=True)
class ModelVersion:
    """A folder that holds a model, and what its lock says.

    Attributes:
        name: the model's name.
        number: the version, 1 and up; None for a folder outside any repository.
        path: the folder.
        lock: what went in and came out. That the files agree with it is for `verify` to tell.
    """

    name: str
    number: int | None
    path: Path
    lock: ModelLock

    @property
    def reference(self) -> str:
        """What names this version on the command line: ``name:3``, or the folder."""
        return str(self.path) if self.number is None else f"{self.name}:{self.number}"

    @property
    def graph_path(self) -> Path:
        """The ONNX graph for CPUs; its weights lie beside it."""
        return self.path / "cpu" / "model.onnx"

    @property
    def int8_cache_graph_path(self) -> Path:
        """The same over a KV cache of 8-bit integers, on the same weights."""
        return self.path / "cpu" / "model.int8kv.onnx"

    @property
    def has_int8_cache(self) -> bool:
        """Whether that graph is there, with the scales that it needs."""
        paths = {file.path for file in self.lock.files}
        return {"cpu/model.int8kv.onnx", CACHE_SCALES_PATH} <= paths

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer in the format of the ``tokenizers`` library."""
        return self.path / "tokenizer.json"

    @property
    def chat_template_path(self) -> Path:
        """The chat template; a base model has none."""
        return self.path / "chat_template.jinja"

    @property
    def tool_template_path(self) -> Path:
        """The chat template for conversations with tools; few models have one of its own."""
        return self.path / "additional_chat_templates" / "tool_use.jinja"

    @property
    def size(self) -> int:
        """Bytes in all files that the lock names."""
        return sum(file.size for file in self.lock.files)


@dataclass(frozen=True)
class BrokenVersion:
    """A version folder whose lock cannot be read, and why.

    Attributes:
        name: the model's name.
        number: the version.
        path: the folder.
        error: what is wrong with it.
    """

    name: str
    number: int
    path: Path
    error: MrsError

    @property
    def reference(self) -> str:
        """What names this version on the command line: ``name:3``."""
        return f"{self.name}:{self.number}"

"""What a sentence-transformers folder says of pooling, of what follows it, and of the texts.

``modules.json`` lists the parts of a model: the transformer, which is the folder itself, then
pooling, linear layers and normalisation, each in a folder of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mrs.errors import CheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.embedding_spec import DenseSpec, EmbeddingHead, Pooling
from mrs.export.architectures.spec import Activation
from mrs.export.checkpoints.hf_config import MAX_CONFIG_BYTES
from mrs.export.checkpoints.json_section import JsonSection, read_json, read_json_list

MODULES_FILE = "modules.json"
_SETTINGS_FILES = ("sentence_bert_config.json", "config_sentence_transformers.json")
_TOKENIZER_FILE = "tokenizer_config.json"
_VECTOR = "sentence_embedding"
_FOLDER = re.compile(r"[0-9]{1,2}_[A-Za-z]+")
# Tokenizers without a limit have a number here that no text reaches.
_NO_LIMIT = 1 << 24

_POOLINGS: Mapping[str, Pooling] = {
    "cls": Pooling.CLS,
    "mean": Pooling.MEAN,
    "max": Pooling.MAX,
    "lasttoken": Pooling.LAST,
}
_MODE_KEYS: Mapping[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
_ACTIVATIONS: Mapping[str, Activation | None] = {
    "Identity": None,
    "Tanh": Activation.TANH,
    "ReLU": Activation.RELU,
    "GELU": Activation.GELU,
    "SiLU": Activation.SILU,
}


@dataclass(frozen=True)
class TextRules:
    """How texts are prepared for an embedding model.

    Attributes:
        max_length: tokens of the longest text; None for as many as the model has positions.
        lowercase: texts are made lower case first.
        prompts: what is put before a text, by its purpose.
        default_prompt: the purpose of texts that name none.
        dimensions: to how many of its first dimensions a vector may be cut; empty if not known.
    """

    max_length: int | None = None
    lowercase: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    dimensions: tuple[int, ...] = ()


@dataclass(frozen=True)
class SentenceTransformer:
    """A folder as sentence-transformers saves it.

    Attributes:
        head: pooling and what follows.
        texts: how texts are prepared.
        dense_folders: where the tensors of each linear layer of the head are, by their stem.
    """

    head: EmbeddingHead
    texts: TextRules
    dense_folders: Mapping[str, Path]


def read_sentence_transformer(folder: Path) -> SentenceTransformer | None:
    """Read the modules of a folder; None if it has no ``modules.json``, as generators have none.

    Raises:
        UnsupportedArchitectureError: a module that mrs does not have.
        CheckpointError, SourceNotFoundError, StorageError: a file is not what it should be.
    """
    if not (folder / MODULES_FILE).exists():
        return None
    modules = read_json_list(folder / MODULES_FILE, MAX_CONFIG_BYTES)
    return _Modules(folder, modules).read()


def tokenizer_limit(folder: Path) -> int | None:
    """Tokens of the longest text that a folder's tokenizer makes; None if it has no limit.

    Raises:
        CheckpointError, StorageError: its configuration is not what it should be.
    """
    limit = _optional(folder, _TOKENIZER_FILE).optional_number("model_max_length")
    return int(limit) if limit is not None and 1 <= limit < _NO_LIMIT else None


class _Modules:
    def __init__(self, folder: Path, modules: list[JsonSection]) -> None:
        self._folder = folder
        self._modules = modules
        self._pooling: Pooling | None = None
        self._dense: list[DenseSpec] = []
        self._dense_folders: dict[str, Path] = {}
        self._normalize = False

    def read(self) -> SentenceTransformer:
        kinds = [module.text("type").rsplit(".", 1)[-1] for module in self._modules]
        if kinds[:1] != ["Transformer"] or self._modules[0].optional_text("path"):
            raise _unsupported(kinds[0] if kinds else "none", "as the first")
        for kind, module in zip(kinds[1:], self._modules[1:], strict=True):
            self._add(kind, module)
        if self._pooling is None:
            raise CheckpointError(
                f"{MODULES_FILE} names no pooling, so the model has no vector for a text.",
                hint="Get the model's own files from sentence-transformers.",
            )
        head = EmbeddingHead(self._pooling, tuple(self._dense), self._normalize)
        return SentenceTransformer(head, self._texts(), self._dense_folders)

    def _add(self, kind: str, module: JsonSection) -> None:
        if kind == "Dropout":  # Nothing drops out where nothing is trained.
            return
        if kind == "Pooling" and self._pooling is None:
            self._pooling = _pooling(self._config(module))
        elif kind == "Dense" and self._pooling is not None and not self._normalize:
            self._add_dense(module)
        elif kind == "Normalize" and self._pooling is not None:
            self._normalize = True
        else:
            raise _unsupported(kind, "at its place")

    def _add_dense(self, module: JsonSection) -> None:
        config = self._config(module)
        of = config.optional_text("module_input_name") or _VECTOR
        if of != _VECTOR:
            raise UnsupportedArchitectureError(
                f"{config.file}: a linear layer of {of!r:.80} is not supported, only of {_VECTOR}.",
                hint="Export a model that makes one vector of a text.",
            )
        name = (config.optional_text("activation_function") or "Identity").rsplit(".", 1)[-1]
        if name not in _ACTIVATIONS:
            raise UnsupportedArchitectureError(
                f"{config.file}: the activation {name!r:.80} is not supported; supported: "
                f"{', '.join(sorted(_ACTIVATIONS))}.",
                hint="Export a model with one of these.",
            )
        # GGUF's names for them, which count from the pooling module.
        tensor = f"dense_{len(self._dense) + 2}"
        sizes = config.size("in_features"), config.size("out_features")
        self._dense.append(DenseSpec(tensor, *sizes, _ACTIVATIONS[name]))
        self._dense_folders[tensor] = self._folder / _path(module)

    def _config(self, module: JsonSection) -> JsonSection:
        path = _path(module)
        section = read_json(self._folder / path / "config.json", MAX_CONFIG_BYTES)
        return JsonSection(f"{path}/config.json", section.values)

    def _texts(self) -> TextRules:
        settings, whole = (self._optional(file) for file in _SETTINGS_FILES)
        limit = settings.optional_size("max_seq_length")
        if limit is None:
            limit = tokenizer_limit(self._folder)
        config = self._optional("config.json")
        return TextRules(
            max_length=limit,
            lowercase=settings.optional_flag("do_lower_case") or False,
            prompts=_prompts(whole),
            default_prompt=whole.optional_text("default_prompt_name"),
            dimensions=tuple(config.optional_sizes("matryoshka_dimensions") or ()),
        )

    def _optional(self, file: str) -> JsonSection:
        return _optional(self._folder, file)


def _pooling(config: JsonSection) -> Pooling:
    if config.flag("include_prompt", True) is False:
        raise UnsupportedArchitectureError(
            f"{config.file}: pooling without the tokens of the prompt is not supported.",
            hint="Export a model that pools all tokens (include_prompt).",
        )
    modes = [mode for key, mode in _MODE_KEYS.items() if config.flag(key, False)]
    if not modes and config.has("pooling_mode"):
        modes = [config.text("pooling_mode")]
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        raise UnsupportedArchitectureError(
            f"{config.file}: the pooling {' with '.join(modes) or 'none'!s:.80} is not supported; "
            f"supported: one of {', '.join(sorted(_POOLINGS))}.",
            hint="Export a model with one of these.",
        )
    return _POOLINGS[modes[0]]


def _prompts(config: JsonSection) -> dict[str, str]:
    section = config.optional_section("prompts")
    return {} if section is None else {name: section.text(name) for name in section.values}


def _path(module: JsonSection) -> str:
    path = module.text("path")
    if not _FOLDER.fullmatch(path):
        raise module.wrong("path", 'a folder such as "1_Pooling"')
    return path


def _optional(folder: Path, file: str) -> JsonSection:
    path = folder / file
    return read_json(path, MAX_CONFIG_BYTES) if path.exists() else JsonSection(file, {})


def _unsupported(kind: str, place: str) -> UnsupportedArchitectureError:
    return UnsupportedArchitectureError(
        f"{MODULES_FILE}: the module {kind!r:.80} {place} is not supported; supported: "
        "Transformer, then Pooling, any Dense, and Normalize.",
        hint="Export a model of these parts.",
    )

"""Which files of a Hugging Face model an export reads, and which tell that it cannot be one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath

from mrs.errors import CheckpointError
from mrs.export.checkpoints.gguf_split import part_names
from mrs.export.checkpoints.hf_config import CONFIG_FILE
from mrs.export.checkpoints.safetensors_shards import INDEX_FILE, choose_shards

_ASSETS = frozenset(
    {
        CONFIG_FILE,
        "generation_config.json",
        # tokenizer
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        # chat templates
        "chat_template.jinja",
        "chat_template.json",
        # sentence-transformers: pooling and what follows it
        "modules.json",
        "config_sentence_transformers.json",
        "sentence_bert_config.json",
        # quantized weights
        "quantize_config.json",
        "quant_config.json",
    }
)
_NESTED = re.compile(
    r"additional_chat_templates/[^/]+\.jinja"
    r"|[0-9]{1,2}_[A-Za-z]+/(?:config\.json|model\.safetensors)"
)
_PART = re.compile(r"[0-9]{1,2}_[A-Za-z]+/?")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NO_WEIGHTS = frozenset({"training_args.bin", "optimizer.pt", "scheduler.pt", "optimizer.bin"})
_PROJECTOR = "mmproj"


def read_files(
    names: Collection[str], read_index: Callable[[], Mapping[str, str]], where: str
) -> list[str]:
    """Choose what is read of a model with a ``config.json``, sorted.

    Args:
        names: all files by their relative POSIX paths.
        read_index: reads ``model.safetensors.index.json``; only called if it is among them.
        where: what errors call the place.

    Raises:
        CheckpointError: the weights are pickles, or there are none.
        SourceNotFoundError: a shard is missing.
    """
    tensors = [name for name in names if "/" not in name and name.endswith(".safetensors")]
    refuse_pickles(names, where)
    chosen = choose_shards([*tensors, *({INDEX_FILE} & set(names))], read_index, where)
    assets = {name for name in names if name in _ASSETS or _NESTED.fullmatch(name)}
    if INDEX_FILE in names and len(chosen) > 1:
        assets.add(INDEX_FILE)
    return sorted({*chosen, *assets})


def is_part_of_model(folder: str) -> bool:
    """Whether a folder in a model's folder holds a layer that follows the model (``2_Dense``)."""
    return _PART.fullmatch(folder) is not None


def refuse_pickles(names: Collection[str], where: str) -> None:
    """Refuse a model whose weights are pickles alone, which can run code.

    Raises:
        CheckpointError: they are.
    """
    if any(name.endswith((".safetensors", ".gguf")) for name in names):
        return
    pickles = sorted(
        name
        for name in names
        if name.endswith(_PICKLES) and PurePosixPath(name).name not in _NO_WEIGHTS
    )
    if pickles:
        raise CheckpointError(
            f"{where} holds its weights as a pickle ({pickles[0]}), which can run code, so mrs "
            "does not read it.",
            hint="Convert it to safetensors where you trust it: load it with transformers and "
            "save it with save_pretrained; or look for a repository with safetensors.",
        )


def gguf_models(names: Collection[str]) -> list[str]:
    """The GGUF models among files, a split one by its first part; no projectors of images."""
    models = set()
    for name in names:
        path = PurePosixPath(name)
        if path.suffix.lower() == ".gguf" and _PROJECTOR not in path.name.lower():
            models.add(str(path.with_name(part_names(path.name)[0])))
    return sorted(models)

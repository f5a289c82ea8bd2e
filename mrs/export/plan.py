"""What an export knows, and did not refuse, before it writes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mrs.chat_template import ChatTemplate
from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import decoder_spec
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint, CheckpointFormat
from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.progress import Progress
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from mrs.model_repo.lock import ModelFacts


@dataclass(frozen=True)
class Plan:
    """A checkpoint, what its decoder is made of, and its text side."""

    checkpoint: Checkpoint
    spec: DecoderSpec
    assets: TokenizerAssets

    def facts(self) -> ModelFacts:
        """What a runtime must know of the model besides its graph."""
        spec, assets = self.spec, self.assets
        return ModelFacts(
            architecture=spec.architecture,
            context_length=spec.context_length,
            vocab_size=spec.vocab_size,
            num_layers=spec.num_layers,
            num_kv_heads=spec.num_kv_heads,
            head_dim=spec.head_dim,
            bos_token_id=assets.bos_token_id,
            eos_token_ids=assets.eos_token_ids,
            add_bos=assets.add_bos,
        )


@contextmanager
def planned(path: Path, progress: Progress) -> Iterator[Plan]:
    """Open a checkpoint, a GGUF file or a Hugging Face folder, for as long as the context lasts.

    Raises:
        CheckpointError: something in it is not what it should be, or is not supported.
        SourceError, StorageError: a file is missing or cannot be read.
    """
    checkpoint: Checkpoint = open_huggingface(path) if path.is_dir() else open_gguf(path)
    with closing(checkpoint):
        yield _plan(checkpoint, path, progress)


def _plan(checkpoint: Checkpoint, path: Path, progress: Progress) -> Plan:
    with progress.phase("Read checkpoint"):
        spec = decoder_spec(checkpoint)
        if checkpoint.format is CheckpointFormat.HUGGING_FACE:
            from mrs.export.tokenizers.hf_tokenizer import read_hf_tokenizer

            assets = read_hf_tokenizer(path)
        else:
            _check_vocabulary_size(checkpoint, spec)
            assets = convert_tokenizer(checkpoint)
    if assets.chat_template is not None:
        ChatTemplate(assets.chat_template).try_out()
    return Plan(checkpoint, spec, assets)


def _check_vocabulary_size(checkpoint: Checkpoint, spec: DecoderSpec) -> None:
    """Before it is converted, which takes memory in proportion: rows of the embedding are real."""
    tokens = checkpoint.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and len(tokens) > spec.vocab_size:
        raise CorruptCheckpointError(
            f"The vocabulary has {len(tokens)} tokens, the embedding only {spec.vocab_size} rows.",
            hint="Convert the model again with a current converter.",
        )

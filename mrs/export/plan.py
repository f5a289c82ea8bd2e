"""What an export knows, and did not refuse, before it writes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Literal

from mrs.errors import CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.architectures.context_length import at_context
from mrs.export.architectures.embedding_spec import EmbeddingSpec, EncoderSpec
from mrs.export.architectures.sentence_transformers import TextRules
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint, CheckpointFormat
from mrs.export.opened_model import OpenedModel, open_model
from mrs.export.progress import Progress
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.template_choice import WantedTemplate, with_chat_template
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from mrs.model_repo.lock import EmbeddingFacts, ModelFacts, RerankerFacts


@dataclass(frozen=True)
class Plan:
    """A checkpoint, what its model is made of, and its text side.

    Attributes:
        checkpoint: metadata and tensors.
        spec: of a model that generates text, or of one that makes vectors of it or ranks it.
        assets: the tokenizer.
        texts: how an embedding model's texts are prepared.
    """

    checkpoint: Checkpoint
    spec: DecoderSpec | EmbeddingSpec
    assets: TokenizerAssets
    texts: TextRules = field(default_factory=TextRules)

    @property
    def parameters(self) -> int:
        """Weights of the checkpoint."""
        return sum(prod(tensor.shape) for tensor in self.checkpoint.tensors.values())

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
            kind=self._kind,
            kv_windows=_kv_windows(spec),
            embedding=self.embedding_facts(),
            reranker=self.reranker_facts(),
            chat_template=assets.template_origin,
        )

    @property
    def _kind(self) -> Literal["decoder", "embedding", "reranker"]:
        if isinstance(self.spec, DecoderSpec):
            return "decoder"
        return "embedding" if self.spec.head.score is None else "reranker"

    def embedding_facts(self) -> EmbeddingFacts | None:
        """What else a runtime must know of an embedding model; None for others."""
        spec, texts = self.spec, self.texts
        if isinstance(spec, DecoderSpec) or spec.head.score is not None:
            return None
        return EmbeddingFacts(
            size=spec.size,
            pooling=spec.head.pooling.value,
            normalized=spec.head.normalize,
            max_length=self._max_length,
            end_token_id=self.assets.end_token_id,
            pad_token_id=self.assets.pad_token_id or 0,
            lowercase=texts.lowercase,
            prompts=dict(texts.prompts),
            default_prompt=texts.default_prompt,
            dimensions=texts.dimensions,
        )

    def reranker_facts(self) -> RerankerFacts | None:
        """What else a runtime must know of a reranker; None for others."""
        spec, pair = self.spec, self.assets.pair
        if isinstance(spec, DecoderSpec) or spec.head.score is None or pair is None:
            return None
        return RerankerFacts(
            max_length=self._max_length,
            before=pair.before,
            between=pair.between,
            after=pair.after,
            token_types=spec.second_type,
            activation=spec.head.score.value,
            pad_token_id=self.assets.pad_token_id or 0,
        )

    @property
    def _max_length(self) -> int:
        """Tokens of the longest text, or of two that are ranked."""
        positions = self.spec.context_length
        return min(self.texts.max_length or positions, positions)


@contextmanager
def planned(
    path: Path,
    progress: Progress,
    context_length: int | None = None,
    template: WantedTemplate | None = None,
) -> Iterator[Plan]:
    """Open a checkpoint, a GGUF file or a Hugging Face folder, for as long as the context lasts.

    Args:
        path: of either.
        progress: reports the work.
        context_length: positions that the artifact shall have; None for the checkpoint's.
        template: the chat template that it shall have; None for the model's own.

    Raises:
        CheckpointError: something in it is not what it should be, or is not supported.
        ChatTemplateError: a template does not compile, or fails on the simplest conversation.
        SourceError, StorageError: a file is missing or cannot be read.
    """
    with closing(open_model(path)) as model:
        plan = _plan(model, path, progress, context_length)
        if model.head is None:
            assets = with_chat_template(plan.assets, plan.spec.architecture, template)
            plan = replace(plan, assets=assets)
        yield plan


def _plan(model: OpenedModel, path: Path, progress: Progress, context_length: int | None) -> Plan:
    checkpoint = model.checkpoint
    with progress.phase("Read checkpoint"):
        spec = at_context(model.spec(), context_length)
        if checkpoint.format is CheckpointFormat.HUGGING_FACE:
            from mrs.export.tokenizers.hf_tokenizer import read_hf_tokenizer

            assets = read_hf_tokenizer(path, rows=spec.vocab_size)
            _check_tokens_have_rows(assets, spec)
        else:
            _check_vocabulary_size(checkpoint, spec)
            assets = convert_tokenizer(checkpoint)
    if model.head is not None:
        # The template of the generator that the model was made from.
        assets = replace(assets, chat_template=None, named_templates={}, template_origin=None)
        if model.head.score is not None:
            assert isinstance(spec, EmbeddingSpec)
            spec = _with_types_of_tokenizer(spec, assets)
    return Plan(checkpoint, spec, assets, model.texts)


def _with_types_of_tokenizer(spec: EmbeddingSpec, assets: TokenizerAssets) -> EmbeddingSpec:
    """A model may know two token types, and its tokenizer use only one."""
    if assets.pair is None:
        raise UnsupportedTokenizerError(
            "The tokenizer does not say what stands between two texts, so nothing can be ranked.",
            hint="Get the tokenizer.json of the model.",
        )
    if isinstance(spec.body, EncoderSpec) and assets.pair.second_type != 1:
        return replace(spec, body=replace(spec.body, second_type=False))
    return spec


def _kv_windows(spec: DecoderSpec | EmbeddingSpec) -> tuple[int | None, ...]:
    windows = spec.windows if isinstance(spec, DecoderSpec) else ()
    return windows if any(windows) else ()


def _check_vocabulary_size(checkpoint: Checkpoint, spec: DecoderSpec | EmbeddingSpec) -> None:
    """Before it is converted, which takes memory in proportion: rows of the embedding are real."""
    tokens = checkpoint.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and len(tokens) > spec.vocab_size:
        raise CorruptCheckpointError(
            f"The vocabulary has {len(tokens)} tokens, the embedding only {spec.vocab_size} rows.",
            hint="Convert the model again with a current converter.",
        )


def _check_tokens_have_rows(assets: TokenizerAssets, spec: DecoderSpec | EmbeddingSpec) -> None:
    if assets.vocab_size > spec.vocab_size:
        raise CorruptCheckpointError(
            f"The vocabulary has ids up to {assets.vocab_size - 1}, the embedding only "
            f"{spec.vocab_size} rows.",
            hint="Download the tokenizer and the weights of the same model.",
        )

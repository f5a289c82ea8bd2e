"""Which families can be exported. A new one is a file beside this, and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.arcee import ARCEE
from mrs.export.architectures.bert import BERT, DISTILBERT, MPNET, ROBERTA
from mrs.export.architectures.cohere import COHERE2, COMMAND_R
from mrs.export.architectures.deepseek import DEEPSEEK2, DEEPSEEK3
from mrs.export.architectures.describe import describe_decoder
from mrs.export.architectures.encoder_family import EncoderFamily
from mrs.export.architectures.ernie import ERNIE4_5
from mrs.export.architectures.exaone import EXAONE4
from mrs.export.architectures.falcon import FALCON
from mrs.export.architectures.family import Family
from mrs.export.architectures.gemma import GEMMA, GEMMA2, GEMMA3
from mrs.export.architectures.gemma_embedding import GEMMA_EMBEDDING
from mrs.export.architectures.glm import CHATGLM, GLM4
from mrs.export.architectures.gpt2 import GPT2
from mrs.export.architectures.gpt_neox import GPT_NEOX
from mrs.export.architectures.gpt_oss import GPT_OSS
from mrs.export.architectures.granite import GRANITE, GRANITE_MOE
from mrs.export.architectures.llama import LLAMA
from mrs.export.architectures.mistral import MISTRAL
from mrs.export.architectures.mixtral import MIXTRAL
from mrs.export.architectures.olmo import OLMO2, OLMO3
from mrs.export.architectures.phi import PHI2, PHI3
from mrs.export.architectures.phi_moe import PHIMOE
from mrs.export.architectures.qwen import QWEN2, QWEN3
from mrs.export.architectures.qwen_moe import QWEN2MOE, QWEN3MOE
from mrs.export.architectures.seed_oss import SEED_OSS
from mrs.export.architectures.smollm3 import SMOLLM3
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.architectures.stablelm import STABLELM
from mrs.export.architectures.starcoder import STARCODER2
from mrs.export.checkpoints.checkpoint import Checkpoint

FAMILIES: tuple[Family, ...] = (
    LLAMA,
    MISTRAL,
    MIXTRAL,
    QWEN2,
    QWEN3,
    QWEN2MOE,
    QWEN3MOE,
    GPT_OSS,
    DEEPSEEK2,
    DEEPSEEK3,
    PHIMOE,
    GRANITE_MOE,
    GEMMA,
    GEMMA2,
    GEMMA3,
    PHI2,
    PHI3,
    STARCODER2,
    CHATGLM,
    GLM4,
    STABLELM,
    COMMAND_R,
    COHERE2,
    GPT2,
    GPT_NEOX,
    FALCON,
    SMOLLM3,
    OLMO2,
    OLMO3,
    GRANITE,
    EXAONE4,
    SEED_OSS,
    ARCEE,
    ERNIE4_5,
)

# Where GGUF has one name for several families of transformers, the first reads its files.
ARCHITECTURES: Mapping[str, Family] = {family.name: family for family in reversed(FAMILIES)}

MODEL_TYPES: Mapping[str, Family] = {
    model_type: family
    for family in FAMILIES
    if family.huggingface is not None
    for model_type in family.huggingface.model_types
}

ENCODERS: tuple[EncoderFamily, ...] = (BERT, ROBERTA, DISTILBERT, MPNET)

ENCODER_ARCHITECTURES: Mapping[str, EncoderFamily] = {family.name: family for family in ENCODERS}

# Decoders' blocks that GGUF has under a name of their own where they make vectors.
EMBEDDING_ARCHITECTURES: Mapping[str, Family] = {GEMMA_EMBEDDING.name: GEMMA_EMBEDDING}

ENCODER_MODEL_TYPES: Mapping[str, EncoderFamily] = {
    model_type: family for family in ENCODERS for model_type in family.huggingface.model_types
}


def decoder_spec(checkpoint: Checkpoint) -> DecoderSpec:
    """Describe the checkpoint's decoder.

    Raises:
        UnsupportedArchitectureError: the family is unknown; the message lists the known ones.
        CorruptCheckpointError: its metadata is missing or contradicts itself.
    """
    return describe_decoder(family_of(checkpoint), checkpoint)


def family_of(checkpoint: Checkpoint) -> Family:
    """The family of a checkpoint with canonical names.

    Raises:
        UnsupportedArchitectureError: it is unknown; the message lists the known ones.
    """
    family = ARCHITECTURES.get(checkpoint.architecture)
    if family is None:
        raise unsupported(checkpoint.architecture)
    return family


def unsupported_model_type(name: str, wants_remote_code: bool) -> UnsupportedArchitectureError:
    """The error for a ``model_type`` that is not there."""
    hint = "Export a model of a supported family."
    if wants_remote_code:
        hint = f"It comes with Python code of its own, which mrs never runs. {hint}"
    return UnsupportedArchitectureError(
        f"The model type {name!r:.80} is not supported; supported: "
        f"{', '.join(sorted({*MODEL_TYPES, *ENCODER_MODEL_TYPES}))}.",
        hint=hint,
    )


def unsupported(name: str) -> UnsupportedArchitectureError:
    """The error for an architecture that is not there."""
    known = sorted({*ARCHITECTURES, *EMBEDDING_ARCHITECTURES, *ENCODER_ARCHITECTURES})
    return UnsupportedArchitectureError(
        f"The architecture {name!r:.80} is not supported; supported: {', '.join(known)}.",
        hint="Export a model of a supported family.",
    )

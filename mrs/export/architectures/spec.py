"""What a decoder is made of, as pure data. Families produce it; the graph builder consumes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# The artifact holds rotary tables for every position, so a header must not ask for any number.
LARGEST_CONTEXT = 1 << 22


class RopeLayout(Enum):
    """How a checkpoint orders the rows of its query and key projections.

    ``HALVES`` pairs dimension ``i`` with ``i + d/2`` (the order of the graph contract);
    ``PAIRS`` pairs ``2i`` with ``2i + 1``, as GGUF files of the llama family store them.
    """

    HALVES = "halves"
    PAIRS = "pairs"


@dataclass(frozen=True)
class RopeSpec:
    """Rotary position embedding (Su et al., RoFormer, arXiv:2104.09864).

    Attributes:
        base: theta; the frequency of pair ``i`` is ``base ** (-2 i / dims)``.
        dims: rotated dimensions of each head (even, at most the head size).
        layout: order of the rows in the checkpoint.
        scale: positions are divided by it (linear scaling); 1.0 for none.
        factors: the checkpoint tensor that divides each frequency, or None.
    """

    base: float
    dims: int
    layout: RopeLayout
    scale: float = 1.0
    factors: str | None = None


@dataclass(frozen=True)
class AttentionSpec:
    """Grouped-query attention (Ainslie et al., arXiv:2305.13245).

    Attributes:
        num_heads: query heads.
        num_kv_heads: key and value heads; divides ``num_heads``.
        head_dim: size of one head.
        rope: position embedding.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope: RopeSpec


@dataclass(frozen=True)
class DecoderSpec:
    """A decoder-only transformer.

    Attributes:
        architecture: family name as the checkpoint spells it.
        hidden_size: width of the residual stream.
        intermediate_size: width of the gated MLP.
        num_layers: number of blocks.
        vocab_size: rows of the embedding and width of the logits.
        context_length: positions the model was made for.
        norm_epsilon: epsilon of every RMS norm.
        attention: shared by all layers.
        tied_embeddings: the output head is the embedding.
    """

    architecture: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    vocab_size: int
    context_length: int
    norm_epsilon: float
    attention: AttentionSpec
    tied_embeddings: bool

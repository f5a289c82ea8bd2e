"""What a decoder is made of, as pure data. Families produce it; the graph builder consumes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mrs.export.architectures.expert_spec import MoeSpec

# The artifact holds rotary tables for every position, so a header must not ask for any number.
LARGEST_CONTEXT = 1 << 22
# Each is described before its tensors are looked for.
MOST_LAYERS = 1024


class RopeLayout(Enum):
    """How a checkpoint orders the rows of its query and key projections.

    ``HALVES`` pairs dimension ``i`` with ``i + d/2`` (the order of the graph contract);
    ``PAIRS`` pairs ``2i`` with ``2i + 1``, as GGUF files of the llama family store them.
    """

    HALVES = "halves"
    PAIRS = "pairs"


class NormKind(Enum):
    """``RMS`` divides by the root mean square; ``LAYER`` centres first (and may have a bias)."""

    RMS = "rms"
    LAYER = "layer"


class Activation(Enum):
    """The function between the matrices of an MLP."""

    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    QUICK_GELU = "quick_gelu"
    RELU = "relu"
    RELU_SQUARED = "relu_squared"
    TANH = "tanh"


@dataclass(frozen=True)
class NormSpec:
    """The norms of a model.

    Attributes:
        kind: what is divided by.
        epsilon: added to the variance.
        offset: added to every stored weight: 1.0 where a checkpoint holds ``weight - 1``.
    """

    kind: NormKind
    epsilon: float
    offset: float = 0.0


@dataclass(frozen=True)
class LinearScaling:
    """Positions are divided by ``factor`` (Chen et al., arXiv:2306.15595)."""

    factor: float


@dataclass(frozen=True)
class DynamicScaling:
    """NTK-aware scaling of the base, for the whole context of the artifact."""

    factor: float
    original_context: int


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3.1's: long waves are divided by ``factor``, short ones not, a ramp between."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True)
class YarnScaling:
    """YaRN (Peng et al., arXiv:2309.00071).

    Attributes:
        factor: how many times the original context.
        original_context: positions the model was first trained for.
        beta_fast: rotations above which a pair keeps its frequency.
        beta_slow: rotations below which it is divided by ``factor``.
        attention_factor: multiplies cosines and sines.
        truncate: whether the ends of the ramp are rounded to whole pairs.
    """

    factor: float
    original_context: int
    beta_fast: float
    beta_slow: float
    attention_factor: float
    truncate: bool = True


@dataclass(frozen=True)
class FactorsScaling:
    """Each pair's frequency is divided by its own number (Llama 3.1 as GGUF stores it).

    Attributes:
        tensor: the checkpoint tensor that holds them, or None where ``values`` does.
        values: one for each pair.
        attention_factor: multiplies cosines and sines.
    """

    tensor: str | None = None
    values: tuple[float, ...] = ()
    attention_factor: float = 1.0


@dataclass(frozen=True)
class LongRopeScaling:
    """Two sets of factors (LongRoPE, arXiv:2402.13753), of which the context decides.

    transformers changes the factors, and with them all keys, when a sequence outgrows the original
    context. A cache that lives on needs one set, as in llama.cpp: that of the whole context.

    Attributes:
        short: for a context of at most the original length.
        long: for a longer one.
        original_context: positions that the model was first trained for.
    """

    short: FactorsScaling
    long: FactorsScaling
    original_context: int

    def at(self, context: int) -> FactorsScaling:
        """The factors for an artifact with so many positions."""
        return self.long if context > self.original_context else self.short


RopeScaling = (
    LinearScaling | DynamicScaling | Llama3Scaling | YarnScaling | FactorsScaling | LongRopeScaling
)


@dataclass(frozen=True)
class RopeSpec:
    """Rotary position embedding (Su et al., RoFormer, arXiv:2104.09864).

    Attributes:
        base: theta; the frequency of pair ``i`` is ``base ** (-2 i / dims)``.
        dims: rotated dimensions of each head (even, at most the head size).
        layout: order of the rows in the checkpoint.
        scaling: what stretches the context, or None.
    """

    base: float
    dims: int
    layout: RopeLayout
    scaling: RopeScaling | None = None


@dataclass(frozen=True)
class AttentionSpec:
    """Grouped-query attention (Ainslie et al., arXiv:2305.13245).

    Biases are there where the checkpoint has tensors for them.

    Attributes:
        num_heads: query heads.
        num_kv_heads: key and value heads; divides ``num_heads``.
        head_dim: size of one head.
        rope: position embedding; None for a layer without.
        scale: multiplies query-key products.
        softcap: bound of the scores, ``softcap * tanh(scores / softcap)``; 0 for none.
        window: a token sees itself and ``window - 1`` before it; None for all.
        causal: tokens see none behind them. If they do, a window reaches ``window // 2`` to each
            side.
        query_key_norm: queries and keys are normed before they are rotated.
        packed_by_group: where queries, keys and values are one matrix, each key head has its
            queries, itself and its value together, instead of all queries coming first.
        sinks: each head has a logit that takes attention and gives nothing.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope: RopeSpec | None
    scale: float
    softcap: float = 0.0
    window: int | None = None
    causal: bool = True
    query_key_norm: bool = False
    packed_by_group: bool = False
    sinks: bool = False


@dataclass(frozen=True)
class LatentAttentionSpec:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), expanded to ordinary heads.

    Attributes:
        num_heads: query heads, which are the key and value heads too.
        query_rank: width of the compressed query; None where queries are not compressed.
        kv_rank: width of the compressed keys and values.
        plain_dim: dimensions of a head that are not rotated.
        rope: position embedding; its ``dims`` follow the plain ones in each head.
        value_dim: size of a value head.
        scale: multiplies query-key products.
        norm_epsilon: of the norms of what is compressed.
    """

    num_heads: int
    query_rank: int | None
    kv_rank: int
    plain_dim: int
    rope: RopeSpec
    value_dim: int
    scale: float
    norm_epsilon: float

    @property
    def num_kv_heads(self) -> int:
        """Key and value heads of the cache."""
        return self.num_heads

    @property
    def head_dim(self) -> int:
        """Size of one cached head, keys' and values' alike: a multiple of 16."""
        return -(-max(self.plain_dim + self.rope.dims, self.value_dim) // 16) * 16


@dataclass(frozen=True)
class MlpSpec:
    """A feed-forward layer.

    Attributes:
        width: its inner width.
        activation: between the matrices.
        gated: ``down(act(gate(x)) * up(x))`` (Shazeer, arXiv:2002.05202) or ``down(act(up(x)))``.
    """

    width: int
    activation: Activation
    gated: bool = True


@dataclass(frozen=True)
class LayerSpec:
    """One block.

    Attributes:
        attention: its attention.
        mlp: its feed-forward part.
        parallel: attention and MLP both work on the block's input, and their sum is added to it.
        attention_norm: name of the norm before the attention.
        mlp_norm: name of the norm before the MLP. A parallel block may have one for both.
        pre_norm: the input of each part is normed.
        post_norm: the result of each part is normed.
    """

    attention: AttentionSpec | LatentAttentionSpec
    mlp: MlpSpec | MoeSpec
    parallel: bool = False
    attention_norm: str = "attn_norm"
    mlp_norm: str = "ffn_norm"
    pre_norm: bool = True
    post_norm: bool = False


@dataclass(frozen=True)
class DecoderSpec:
    """A decoder-only transformer.

    Attributes:
        architecture: family name as GGUF spells it.
        hidden_size: width of the residual stream.
        vocab_size: rows of the embedding and width of the logits.
        context_length: positions the artifact has room for.
        norm: every norm of the model.
        layers: the blocks, in order.
        tied_embeddings: the output head is the embedding.
        learned_positions: rows of the table of position embeddings that are added to the tokens'
            (GPT-2); 0 where there is none.
        embedding_scale: multiplies embeddings.
        residual_scale: multiplies what a block adds to the residual stream.
        logit_scale: multiplies logits.
        logit_softcap: bound of the logits; 0 for none.
        needless: patterns (`fnmatch`) of tensors that no text needs: layers that only draft.
    """

    architecture: str
    hidden_size: int
    vocab_size: int
    context_length: int
    norm: NormSpec
    layers: tuple[LayerSpec, ...]
    tied_embeddings: bool
    learned_positions: int = 0
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    logit_softcap: float = 0.0
    needless: tuple[str, ...] = ()

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.layers)

    @property
    def num_kv_heads(self) -> int:
        """Heads of each layer's cache."""
        return self.layers[0].attention.num_kv_heads

    @property
    def head_dim(self) -> int:
        """Size of one cached head."""
        return self.layers[0].attention.head_dim

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The sliding window of each layer; None for a layer that sees everything."""
        attentions = (layer.attention for layer in self.layers)
        return tuple(
            each.window if isinstance(each, AttentionSpec) else None for each in attentions
        )

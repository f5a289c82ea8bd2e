"""What an embedding model is made of, as pure data: a body, and what makes one vector of it.

A reranker is one whose vector has one value, which tells how well two texts belong together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mrs.export.architectures.spec import Activation, DecoderSpec, MlpSpec, NormSpec


class Pooling(Enum):
    """How the vectors of a text's tokens become one.

    ``CLS`` takes the first, ``LAST`` the last, ``MEAN`` their mean, ``MAX`` the largest value of
    each dimension.
    """

    CLS = "cls"
    MEAN = "mean"
    MAX = "max"
    LAST = "last"

    @property
    def takes_one(self) -> bool:
        """Whether one token's vector is taken, so that the others need no more work."""
        return self in (Pooling.CLS, Pooling.LAST)


@dataclass(frozen=True)
class DenseSpec:
    """A linear layer behind the pooling.

    Attributes:
        tensor: stem of its tensors.
        inputs: width of what comes in.
        outputs: width of what comes out.
        activation: what follows; None for nothing.
    """

    tensor: str
    inputs: int
    outputs: int
    activation: Activation | None = None


class ScoreActivation(Enum):
    """What makes a relevance score of a reranker's logit."""

    SIGMOID = "sigmoid"
    IDENTITY = "identity"


@dataclass(frozen=True)
class EmbeddingHead:
    """What follows the body.

    Attributes:
        pooling: of the tokens.
        dense: linear layers, in order.
        normalize: the vector is scaled to length 1.
        score: of a reranker, what its logit becomes, which is the one value of the last linear
            layer; None for a model that makes vectors.
    """

    pooling: Pooling
    dense: tuple[DenseSpec, ...] = ()
    normalize: bool = True
    score: ScoreActivation | None = None


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder like BERT (Devlin et al., arXiv:1810.04805).

    Every token sees every other. Positions and one token type are added to the token embeddings;
    a norm follows them, and each residual sum.

    Attributes:
        architecture: family name as GGUF spells it.
        hidden_size: width of the residual stream.
        vocab_size: rows of the token embedding.
        context_length: positions that a text may have.
        first_position: rows of the position table before the first position.
        num_layers: number of blocks.
        num_heads: heads of each attention; divides ``hidden_size``.
        norm: every norm of the model.
        mlp: of every block.
        distance_buckets: by how many classes of distance between two tokens their score is
            corrected, for each head, in all layers alike; 0 for none (MPNet has 32).
        second_type: the second of two texts has the second token type, so that the graph must be
            told where it starts.
    """

    architecture: str
    hidden_size: int
    vocab_size: int
    context_length: int
    first_position: int
    num_layers: int
    num_heads: int
    norm: NormSpec
    mlp: MlpSpec
    distance_buckets: int = 0
    second_type: bool = False

    @property
    def head_dim(self) -> int:
        """Size of one head."""
        return self.hidden_size // self.num_heads

    @property
    def num_kv_heads(self) -> int:
        """Key and value heads: as many as queries."""
        return self.num_heads


@dataclass(frozen=True)
class EmbeddingSpec:
    """A model that makes one vector of a text.

    Attributes:
        body: what makes a vector of each token.
        head: what makes one of them all.
    """

    body: EncoderSpec | DecoderSpec
    head: EmbeddingHead

    @property
    def size(self) -> int:
        """Dimensions of the vector."""
        return self.head.dense[-1].outputs if self.head.dense else self.body.hidden_size

    @property
    def second_type(self) -> bool:
        """Whether the graph must be told where the second of two texts starts."""
        return isinstance(self.body, EncoderSpec) and self.body.second_type

    @property
    def architecture(self) -> str:
        """Family name as GGUF spells it."""
        return self.body.architecture

    @property
    def vocab_size(self) -> int:
        """Rows of the token embedding."""
        return self.body.vocab_size

    @property
    def context_length(self) -> int:
        """Positions that a text may have."""
        return self.body.context_length

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return self.body.num_layers

    @property
    def num_kv_heads(self) -> int:
        """Key and value heads of a block."""
        return self.body.num_kv_heads

    @property
    def head_dim(self) -> int:
        """Size of one head."""
        return self.body.head_dim

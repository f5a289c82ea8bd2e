"""An encoder family as data: how its checkpoints differ from BERT as transformers stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mrs.export.architectures.family import HuggingFaceForm
from mrs.export.architectures.spec import Activation


@dataclass(frozen=True)
class ClassifierForm:
    """The head of a family's ``ForSequenceClassification`` model, on the vector of the first token.

    Attributes:
        dense: stem of the first layer, as transformers names it.
        output: stem of the last one, which has a row for each label.
        activation: between the two.
    """

    dense: str
    output: str
    activation: Activation = Activation.TANH


@dataclass(frozen=True)
class EncoderFamily:
    """One architecture like BERT.

    Attributes:
        name: ``general.architecture`` in GGUF.
        title: what people call it.
        huggingface: how transformers stores it.
        classifier: its head where it ranks pairs of texts.
        gguf: whether GGUF files of it can be read.
        activation: of its MLPs, unless the config names one.
    """

    name: str
    title: str
    huggingface: HuggingFaceForm
    classifier: ClassifierForm
    gguf: bool = True
    activation: Activation = Activation.GELU


BERT_TENSORS: Mapping[str, str] = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
"""Stems of transformers' names without ``encoder.layer.N.``."""

DISTILBERT_TENSORS: Mapping[str, str] = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.q_lin": "attn_q",
    "attention.k_lin": "attn_k",
    "attention.v_lin": "attn_v",
    "attention.out_lin": "attn_output",
    "sa_layer_norm": "attn_output_norm",
    "ffn.lin1": "ffn_up",
    "ffn.lin2": "ffn_down",
    "output_layer_norm": "layer_output_norm",
}

MPNET_TENSORS: Mapping[str, str] = {
    **BERT_TENSORS,
    "attention.attn.q": "attn_q",
    "attention.attn.k": "attn_k",
    "attention.attn.v": "attn_v",
    "attention.attn.o": "attn_output",
    "attention.LayerNorm": "attn_output_norm",
    "encoder.relative_attention_bias": "attn_rel_b",
}

# The pooler was trained to tell whether two sentences follow each other; embeddings do without.
BERT_IGNORED = (
    *("*embeddings.position_ids", "*embeddings.token_type_ids"),
    *("*pooler.dense.*", "cls.predictions.*", "cls.seq_relationship.*", "lm_head.*"),
    "vocab_*",
)
"""Buffers and the heads of pre-training."""

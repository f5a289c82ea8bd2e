"""BERT (arXiv:1810.04805): all-MiniLM, bge, e5, gte; RoBERTa (arXiv:1907.11692) and XLM-RoBERTa
(arXiv:1911.02116): multilingual-e5, bge-m3; DistilBERT (arXiv:1910.01108): multi-qa-distilbert;
MPNet (arXiv:2004.09297): all-mpnet-base.

RoBERTa counts positions from the padding token's id plus 1. GGUF cuts the rows before that off the
table, so that in GGUF all of them are BERT.
"""

from __future__ import annotations

from mrs.export.architectures.encoder_family import (
    BERT_IGNORED,
    BERT_TENSORS,
    DISTILBERT_TENSORS,
    MPNET_TENSORS,
    ClassifierForm,
    EncoderFamily,
)
from mrs.export.architectures.family import HuggingFaceForm
from mrs.export.architectures.spec import Activation

_CONFIG = {"position_embedding_type": "position_embedding_type", "is_decoder": "is_decoder"}
_DEFAULTS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
}

BERT = EncoderFamily(
    name="bert",
    title="BERT, and in GGUF RoBERTa and XLM-RoBERTa",
    classifier=ClassifierForm("pooler.dense", "classifier"),
    huggingface=HuggingFaceForm(
        model_types=("bert",),
        tensors=BERT_TENSORS,
        ignored=BERT_IGNORED,
        config=_CONFIG,
        defaults=_DEFAULTS,
    ),
)

ROBERTA = EncoderFamily(
    name="roberta",
    title="RoBERTa, XLM-RoBERTa, CamemBERT",
    classifier=ClassifierForm("classifier.dense", "classifier.out_proj"),
    gguf=False,
    huggingface=HuggingFaceForm(
        model_types=("roberta", "xlm-roberta", "camembert"),
        tensors=BERT_TENSORS,
        ignored=BERT_IGNORED,
        config={**_CONFIG, "pad_token_id": "padding_token_id"},
        defaults={**_DEFAULTS, "pad_token_id": 1},
    ),
)

DISTILBERT = EncoderFamily(
    name="distilbert",
    title="DistilBERT",
    classifier=ClassifierForm("pre_classifier", "classifier", Activation.RELU),
    gguf=False,
    huggingface=HuggingFaceForm(
        model_types=("distilbert",),
        tensors=DISTILBERT_TENSORS,
        ignored=BERT_IGNORED,
        config={
            "dim": "embedding_length",
            "n_layers": "block_count",
            "n_heads": "attention.head_count",
            "hidden_dim": "feed_forward_length",
            "activation": "hidden_activation",
        },
        defaults={
            "dim": 768,
            "n_layers": 6,
            "n_heads": 12,
            "hidden_dim": 3072,
            "activation": "gelu",
            "max_position_embeddings": 512,
            "layer_norm_eps": 1e-12,
        },
    ),
)

MPNET = EncoderFamily(
    name="mpnet",
    title="MPNet",
    classifier=ClassifierForm("classifier.dense", "classifier.out_proj"),
    gguf=False,
    huggingface=HuggingFaceForm(
        model_types=("mpnet",),
        tensors=MPNET_TENSORS,
        ignored=BERT_IGNORED,
        config={
            "pad_token_id": "padding_token_id",
            "relative_attention_num_buckets": "distance_buckets",
        },
        defaults={**_DEFAULTS, "pad_token_id": 1, "relative_attention_num_buckets": 32},
    ),
)

"""The variations of embedding models that are compared with sentence-transformers."""

from __future__ import annotations

from tests.reference.tiny_embedding import VOCABULARY, TinyDense, TinyEmbedding

_BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 48,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
_ROBERTA = {
    **_BERT,
    "max_position_embeddings": 50,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-5,
}
_DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "tie_word_embeddings": True,
}
_GEMMA = {
    **_DECODER,
    "query_pre_attn_scalar": 24,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "use_bidirectional_attention": True,
}

CASES = (
    TinyEmbedding("bert-mean", "bert", _BERT, gguf="bert"),
    TinyEmbedding("bert-cls", "bert", _BERT, pooling="cls_token", gguf="bert"),
    TinyEmbedding(
        "bert-max",
        "bert",
        # Widths that no block of 32 weights fits.
        {**_BERT, "hidden_size": 48, "intermediate_size": 80},
        pooling="max_tokens",
        normalize=False,
    ),
    TinyEmbedding(
        "bert-dense",
        "bert",
        {**_BERT, "hidden_act": "gelu_new", "layer_norm_eps": 1e-6},
        dense=(TinyDense(64, 24, bias=True, activation="torch.nn.modules.activation.Tanh"),),
        normalize=False,
    ),
    TinyEmbedding("xlm-roberta-mean", "xlm-roberta", _ROBERTA, gguf="bert"),
    TinyEmbedding("roberta-cls", "roberta", _ROBERTA, pooling="cls_token", gguf="bert"),
    TinyEmbedding(
        "distilbert-mean",
        "distilbert",
        {
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 48,
            "dim": 64,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 96,
            "pad_token_id": 0,
        },
        gguf="bert",
    ),
    # Long enough for every class of distance.
    TinyEmbedding(
        "mpnet-mean",
        "mpnet",
        {**_ROBERTA, "max_position_embeddings": 302},
        lengths=(1, 5, 40, 300),
    ),
    TinyEmbedding(
        "xlm-roberta-long",
        "xlm-roberta",
        {**_ROBERTA, "max_position_embeddings": 1100},
        pooling="cls_token",
        lengths=(1, 30, 300),
    ),
    TinyEmbedding("qwen3-last", "qwen3", _DECODER, pooling="lasttoken", gguf="qwen3"),
    TinyEmbedding("qwen3-mean", "qwen3", _DECODER, gguf="qwen3"),
    TinyEmbedding("qwen2-both-ways", "qwen2", {**_DECODER, "head_dim": 16, "is_causal": False}),
    TinyEmbedding(
        "embeddinggemma",
        "gemma3_text",
        # llama.cpp knows that each sixth layer sees everything,
        # and that the root of the head size divides the scores.
        {**_GEMMA, "num_hidden_layers": 7, "layer_types": None, "query_pre_attn_scalar": 32},
        dense=(TinyDense(64, 96), TinyDense(96, 64)),
        gguf="gemma-embedding",
    ),
    TinyEmbedding("embeddinggemma-mean", "gemma3_text", {**_GEMMA, "sliding_window": 20}),
)

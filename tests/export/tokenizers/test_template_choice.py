from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError, UsageError
from mrs.export.tokenizers.bundled_templates import BUNDLED_TEMPLATES, recognized_template
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.template_choice import wanted_template, with_chat_template
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from tests.export.tokenizers.vocabularies import (
    VocabularyCheckpoint,
    chat_metadata,
    sentence_piece_metadata,
)

IM_END: int = chat_metadata()["tokenizer.ggml.tokens"].index("<|im_end|>")
TURNS = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "U1"},
    {"role": "assistant", "content": "A1"},
    {"role": "user", "content": "U2"},
]
# As the authors of each format publish it.
EXPECTED = {
    "alpaca": "S\n\n### Instruction:\nU1\n\n### Response:\nA1</s>\n\n"
    "### Instruction:\nU2\n\n### Response:\n",
    "chatml": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n"
    "<|im_start|>assistant\nA1<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n",
    "command-r": "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>U1<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>A1<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>U2<|END_OF_TURN_TOKEN|>"
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "deepseek": "S<｜User｜>U1<｜Assistant｜>A1</s><｜User｜>U2<｜Assistant｜>",
    "gemma": "<start_of_turn>user\nS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
    "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n",
    "glm4": "[gMASK]<sop><|system|>\nS<|user|>\nU1<|assistant|>\nA1<|user|>\nU2<|assistant|>\n",
    "granite": "<|start_of_role|>system<|end_of_role|>S<|end_of_text|>\n"
    "<|start_of_role|>user<|end_of_role|>U1<|end_of_text|>\n"
    "<|start_of_role|>assistant<|end_of_role|>A1<|end_of_text|>\n"
    "<|start_of_role|>user<|end_of_role|>U2<|end_of_text|>\n"
    "<|start_of_role|>assistant<|end_of_role|>",
    "harmony": "<|start|>system<|message|>Reasoning: medium\n\n# Valid channels: analysis, "
    "commentary, final. Channel must be included for every message.<|end|>"
    "<|start|>developer<|message|># Instructions\n\nS<|end|><|start|>user<|message|>U1<|end|>"
    "<|start|>assistant<|channel|>final<|message|>A1<|end|><|start|>user<|message|>U2<|end|>"
    "<|start|>assistant",
    "llama2": "[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST] A1 </s><s>[INST] U2 [/INST]",
    "llama3": "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nU1<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nU2<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "mistral": "[INST]U1[/INST]A1</s>[INST]S\n\nU2[/INST]",
    "phi3": "<|system|>\nS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n"
    "<|user|>\nU2<|end|>\n<|assistant|>\n",
    "vicuna": "S USER: U1 ASSISTANT: A1</s>USER: U2 ASSISTANT:",
    "zephyr": "<|system|>\nS</s>\n<|user|>\nU1</s>\n<|assistant|>\nA1</s>\n<|user|>\nU2</s>\n"
    "<|assistant|>\n",
}


def assets(template: str | None = None, **changes: Any) -> TokenizerAssets:
    converted = convert_tokenizer(VocabularyCheckpoint(chat_metadata()))
    return replace(converted, chat_template=template, **changes)


@pytest.mark.parametrize("name", BUNDLED_TEMPLATES)
def test_a_bundled_template_writes_its_format(name: str) -> None:
    template = ChatTemplate(BUNDLED_TEMPLATES[name].source, bos_token="<s>", eos_token="</s>")
    assert template.render(TURNS) == EXPECTED[name]


@pytest.mark.parametrize("name", BUNDLED_TEMPLATES)
def test_a_bundled_template_is_recognized_by_its_tokens_and_no_other(name: str) -> None:
    template = BUNDLED_TEMPLATES[name]
    family = template.architectures[0] if template.architectures else "other"
    found = recognized_template(template.tokens.__contains__, family)
    assert found == (template if template.tokens else None)


def test_a_token_that_is_missing_makes_it_another_format() -> None:
    tokens = BUNDLED_TEMPLATES["llama3"].tokens[1:]
    assert recognized_template(tokens.__contains__, "llama") is None


def test_some_formats_belong_to_families() -> None:
    tokens = BUNDLED_TEMPLATES["phi3"].tokens
    found = {family: recognized_template(tokens.__contains__, family) for family in ("phi3", "x")}
    assert found == {"phi3": BUNDLED_TEMPLATES["phi3"], "x": None}


def test_the_models_own_template_is_taken_before_a_bundled_one() -> None:
    own = with_chat_template(assets("own", template_origin="GGUF metadata"), "llama", None)
    assert (own.chat_template, own.template_origin) == ("own", "GGUF metadata")


def test_without_one_the_control_tokens_tell() -> None:
    chosen = with_chat_template(assets(), "llama", None)
    assert chosen.chat_template == BUNDLED_TEMPLATES["chatml"].source
    assert chosen.template_origin == "bundled: chatml"
    assert chosen.eos_token_ids == (IM_END,)


def test_what_ends_a_turn_of_the_template_ends_an_answer() -> None:
    chosen = with_chat_template(assets(eos_token_ids=(3,)), "llama", None)
    assert chosen.eos_token_ids == (3, IM_END)


def test_without_control_tokens_nothing_is_guessed() -> None:
    plain = convert_tokenizer(VocabularyCheckpoint(sentence_piece_metadata()))
    assert with_chat_template(plain, "llama", None) == plain


def test_the_users_choice_is_taken_before_all(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("mine")
    brought = assets("own", named_templates={"tool_use": "tools"}, template_origin="x")
    chosen = with_chat_template(brought, "llama", wanted_template(str(path)))
    assert (chosen.chat_template, chosen.named_templates) == ("mine", {})
    assert chosen.template_origin == "file: mine.jinja"
    assert with_chat_template(brought, "llama", wanted_template("none")).chat_template is None
    bundled = with_chat_template(brought, "llama", wanted_template("vicuna"))
    assert bundled.template_origin == "bundled: vicuna"


def test_a_file_may_be_the_configuration_of_a_tokenizer(tmp_path: Path) -> None:
    entries = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": entries}))
    chosen = with_chat_template(assets(), "llama", wanted_template(str(path)))
    assert (chosen.chat_template, dict(chosen.named_templates)) == ("a", {"tool_use": "b"})


def test_the_lock_names_a_file_by_what_is_in_it(tmp_path: Path) -> None:
    options = []
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(text)
        options.append(wanted_template(str(tmp_path / name)).option)
    assert options[0] == options[1] != options[2]
    assert options[0].startswith("sha256:")
    assert wanted_template("chatml").option == "chatml"


def test_a_name_that_is_neither_lists_the_bundled_ones() -> None:
    with pytest.raises(UsageError, match="nonsense") as caught:
        wanted_template("nonsense")
    assert "chatml" in caught.value.hint


def test_an_empty_file_is_no_template(tmp_path: Path) -> None:
    (tmp_path / "empty.jinja").write_text("")
    with pytest.raises(UsageError, match="no chat template"):
        wanted_template(str(tmp_path / "empty.jinja"))


@pytest.mark.parametrize(
    ("template", "words"),
    [("a\n{% for %}", "line 2"), ("a\n\n{{ 1 / 0 }}", "line 3"), ("{% include 'x' %}", "line 1")],
)
def test_a_bad_template_fails_with_its_line_and_place(template: str, words: str) -> None:
    with pytest.raises(ChatTemplateError, match=words) as caught:
        with_chat_template(assets(template, template_origin="GGUF metadata"), "llama", None)
    assert "GGUF metadata" in caught.value.message
    assert "--chat-template" in caught.value.hint


def test_named_templates_are_compiled_too() -> None:
    brought = assets("a", named_templates={"tool_use": "{% for t in tools %}{{ t }}{% endfor %}"})
    assert with_chat_template(brought, "llama", None) == brought
    with pytest.raises(ChatTemplateError, match="'rag'"):
        with_chat_template(assets("a", named_templates={"rag": "{% if %}"}), "llama", None)

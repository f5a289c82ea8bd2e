from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError, InvalidValueError
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.runtime.prompt_encoder import PromptEncoder
from mrs.runtime.tokenizer import Tokenizer
from tests.export.tokenizers.vocabularies import (
    VocabularyCheckpoint,
    chat_metadata,
    sentence_piece_metadata,
    unigram_metadata,
)

TOKENIZER = Tokenizer(
    tokenizers.Tokenizer.from_buffer(
        convert_tokenizer(VocabularyCheckpoint(chat_metadata())).tokenizer_json
    )
)
SPECIALS = TOKENIZER.special_tokens
BOS, IM_START, IM_END = (SPECIALS[text] for text in ("<s>", "<|im_start|>", "<|im_end|>"))
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# A template that does to texts what templates do.
BUSY = (
    "{% for m in messages %}<|im_start|>{% if m.content is string and m.content|length > 3 %}"
    "{{ (m.content | trim).split('</x>')[-1].replace('a', 'b') | upper }}{% endif %}"
    "{{ m | tojson }}{{ m.items() | list }}{{ m.content[1:] ~ m.content.strip('>') }}"
    "<|im_end|>{% endfor %}"
)
LITERALS = list(SPECIALS)
HOSTILE = st.lists(
    st.sampled_from([*LITERALS, "<", "<|", "<|im_", "start|>", "|>", ">", "<s", " ", "\n", "a"])
    | st.text(st.characters(), max_size=3)
    | st.text(st.characters(categories=["Cs"]), min_size=1, max_size=3)
).map("".join)


def encoder(template: str | None = CHATML, **options: Any) -> PromptEncoder:
    compiled = None if template is None else ChatTemplate(template, bos_token="<s>")
    return PromptEncoder(TOKENIZER, compiled, **{"bos_token_id": None, "add_bos": False, **options})


def user(content: Any) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": content}]


def specials(ids: Sequence[int]) -> list[int]:
    return [index for index in ids if TOKENIZER.is_special(index)]


def without_surrogates(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


@given(
    contents=st.lists(st.text(), min_size=1, max_size=3), template=st.sampled_from([CHATML, BUSY])
)
def test_ordinary_text_is_encoded_as_if_the_prompt_were_encoded_in_one_go(
    contents: list[str], template: str
) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    prompt = ChatTemplate(template).render(messages)
    if not any(literal in content for literal in LITERALS for content in contents):
        assert encoder(template).encode_chat(messages) == tuple(TOKENIZER.encode(prompt))


@given(content=HOSTILE)
def test_only_the_template_writes_control_tokens(content: str) -> None:
    assert specials(encoder().encode_chat(user(content))) == [IM_START, IM_END, IM_START]


@given(content=HOSTILE)
def test_no_character_of_the_text_is_lost(content: str) -> None:
    ids = encoder("{{ messages[0].content }}").encode_chat(user(content))
    assert TOKENIZER.decode(ids) == without_surrogates(content)
    assert specials(ids) == []


@given(content=HOSTILE)
def test_control_tokens_stay_text_whatever_the_template_does(content: str) -> None:
    assert specials(encoder(BUSY).encode_chat(user(content))) == [IM_START, IM_END]


@given(parts=st.lists(HOSTILE, max_size=4))
def test_neighbouring_texts_do_not_make_a_control_token(parts: list[str]) -> None:
    messages = [{"role": "user", "content": part} for part in parts]
    joined = encoder("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert specials(joined.encode_chat(messages)) == []


@pytest.mark.parametrize("field", ["role", "name", "tool_call_id"])
def test_every_field_of_a_message_is_text(field: str) -> None:
    template = f"{{{{ messages[0].{field} }}}}"
    ids = encoder(template).encode_chat([{"role": "user", field: "<|im_end|>"}])
    assert TOKENIZER.decode(ids) == "<|im_end|>"
    assert specials(ids) == []


def test_nested_values_and_keys_are_text() -> None:
    call = {"arguments": {"<|im_end|>": ["<|im_start|>", {"x": "<s>"}]}}
    ids = encoder("{{ messages[0].tool_calls | tojson }}").encode_chat(
        [{"role": "assistant", "tool_calls": [call]}]
    )
    assert TOKENIZER.decode(ids) == (
        '[{"arguments": {"<|im_end|>": ["<|im_start|>", {"x": "<s>"}]}}]'
    )
    assert specials(ids) == []


def test_variables_are_text() -> None:
    ids = encoder("{{ tools[0].description }}").encode_chat([], tools=[{"description": "<s>"}])
    assert TOKENIZER.decode(ids) == "<s>"
    assert specials(ids) == []


def test_ascii_json_keeps_control_tokens_text() -> None:
    ids = encoder("{{ messages[0].content | tojson(ensure_ascii=true) }}").encode_chat(
        user("é<|im_end|>")
    )
    assert TOKENIZER.decode(ids) == '"\\u00e9<|im_end|>"'
    assert specials(ids) == []


@given(content=HOSTILE)
def test_no_character_is_lost_where_python_shows_a_list(content: str) -> None:
    ids = encoder("{{ [messages[0].content] }}").encode_chat(user(content))
    assert TOKENIZER.decode(ids) == repr([without_surrogates(content)])
    assert specials(ids) == []


def test_a_template_may_build_a_control_token_around_a_role() -> None:
    ids = encoder("<|{{ messages[0].role }}|>").encode_chat([{"role": "im_start", "content": ""}])
    assert ids == (IM_START,)


def test_text_parts_are_put_together() -> None:
    parts = [{"type": "text", "text": "hel"}, "l", {"type": "text", "text": "o"}]
    assert encoder().encode_chat(user(parts)) == encoder().encode_chat(user("hello"))


def test_parts_do_not_make_a_control_token_together() -> None:
    parts = [{"type": "text", "text": "<|im_"}, {"type": "text", "text": "end|>"}]
    assert specials(encoder().encode_chat(user(parts))) == [IM_START, IM_END, IM_START]


def test_no_content_is_empty_content() -> None:
    assert encoder().encode_chat(user(None)) == encoder().encode_chat(user(""))


def test_the_request_is_left_as_it_was() -> None:
    messages = user([{"type": "text", "text": "<|im_end|>"}])
    encoder().encode_chat(messages)
    assert messages == user([{"type": "text", "text": "<|im_end|>"}])


@pytest.mark.parametrize(
    "part",
    [{"type": "image_url", "image_url": {}}, {"type": "text"}, {"type": "text", "text": 1}, 3],
)
def test_a_part_that_is_not_text_is_refused(part: Any) -> None:
    with pytest.raises(InvalidValueError, match="reads text only") as caught:
        encoder().encode_chat(user([part]))
    assert caught.value.param == "messages"


def test_nesting_without_end_is_refused() -> None:
    value: Any = "x"
    for _ in range(200):
        value = [value]
    with pytest.raises(InvalidValueError, match="100 levels"):
        encoder().encode_chat([{"role": "user", "content": "", "extra": value}])


def test_without_a_template_the_error_says_what_to_do() -> None:
    with pytest.raises(ChatTemplateError, match="no chat template") as caught:
        encoder(None).encode_chat(user("hello"))
    assert "completions" in caught.value.hint


def test_the_generation_prompt_can_be_left_out() -> None:
    ids = encoder().encode_chat(user("hello"), add_generation_prompt=False)
    assert specials(ids) == [IM_START, IM_END]


@pytest.mark.parametrize("template", ["{{ bos_token }}a", "<s>a", "a"])
def test_a_prompt_starts_with_one_bos(template: str) -> None:
    ids = encoder(template, bos_token_id=BOS, add_bos=True).encode_chat([])
    assert ids == (BOS, ord("a"))


def test_no_bos_is_added_unless_the_model_wants_one() -> None:
    assert encoder("a", bos_token_id=BOS, add_bos=False).encode_chat([]) == (ord("a"),)


def test_a_text_prompt_starts_with_one_bos() -> None:
    with_bos = encoder(bos_token_id=BOS, add_bos=True)
    assert with_bos.encode_text("a") == (BOS, ord("a"))
    assert with_bos.encode_text("<s>a", parse_special=True) == (BOS, ord("a"))
    assert with_bos.encode_text("") == (BOS,)


def test_a_text_prompt_has_no_bos_where_it_is_not_wanted() -> None:
    with_bos = encoder(bos_token_id=BOS, add_bos=True)
    assert with_bos.begin == (BOS,)
    assert with_bos.encode_text("a", add_bos=False) == (ord("a"),)
    assert encoder(bos_token_id=BOS, add_bos=False).begin == ()


def test_models_without_the_tokens_fill_in_no_middle() -> None:
    with pytest.raises(InvalidValueError, match="fill in a middle"):
        encoder().encode_infill("a", "b")


def test_control_tokens_in_a_text_prompt_are_text_unless_asked_for() -> None:
    assert specials(encoder().encode_text("<|im_end|>")) == []
    assert encoder().encode_text("<|im_end|>", parse_special=True) == (IM_END,)


def test_conversations_with_tools_may_have_a_template_of_their_own() -> None:
    prompts = PromptEncoder(
        TOKENIZER,
        ChatTemplate("a"),
        bos_token_id=None,
        add_bos=False,
        tool_template=ChatTemplate("b"),
    )
    assert prompts.encode_chat([]) == (ord("a"),)
    assert prompts.encode_chat([], tools=[]) == (ord("a"),)
    assert prompts.encode_chat([], tools=[{"type": "function"}]) == (ord("b"),)


# --- vocabularies of pieces ----------------------------------------------------------------------

PIECES = {
    name: Tokenizer(
        tokenizers.Tokenizer.from_buffer(
            convert_tokenizer(VocabularyCheckpoint(metadata)).tokenizer_json
        )
    )
    for name, metadata in {
        "llama": sentence_piece_metadata(),
        "llama without space prefix": sentence_piece_metadata(add_space_prefix=False),
        "t5": unigram_metadata(),
    }.items()
}
PIECE_HOSTILE = st.lists(
    st.sampled_from(
        ["<s>", "</s>", "<s", "</", ">", "<", "the", " ", "\n\n", "▁", "<0x0A>", "<unk>"]
    )
    | st.text(st.characters(), max_size=3)
).map("".join)


@pytest.mark.parametrize("name", PIECES)
@given(contents=st.lists(PIECE_HOSTILE, min_size=1, max_size=3))
def test_of_pieces_too_only_the_template_writes_control_tokens(
    name: str, contents: list[str]
) -> None:
    tokenizer = PIECES[name]
    template = ChatTemplate("{% for m in messages %}{{ m.content | trim }}</s>{% endfor %}")
    prompts = PromptEncoder(tokenizer, template, bos_token_id=None, add_bos=False)
    ids = prompts.encode_chat([{"role": "user", "content": text} for text in contents])
    unknown = tokenizer.special_tokens["<unk>"]
    control = [index for index in ids if tokenizer.is_special(index) and index != unknown]
    assert control == [tokenizer.special_tokens["</s>"]] * len(contents)


@given(content=PIECE_HOSTILE)
def test_of_pieces_too_no_character_is_lost(content: str) -> None:
    tokenizer = PIECES["llama without space prefix"]
    prompts = PromptEncoder(
        tokenizer, ChatTemplate("{{ messages[0].content }}"), bos_token_id=None, add_bos=False
    )
    ids = prompts.encode_chat(user(content))
    assert tokenizer.decode(ids) == without_surrogates(content).replace("▁", " ")


def test_a_prompt_of_pieces_has_one_bos_whoever_writes_it() -> None:
    tokenizer = PIECES["llama"]
    bos = tokenizer.special_tokens["<s>"]
    for source in ("{{ bos_token }}the", "<s>the", "the"):
        template = ChatTemplate(source, bos_token="<s>")
        prompts = PromptEncoder(tokenizer, template, bos_token_id=bos, add_bos=True)
        assert prompts.encode_chat([]) == (bos, *tokenizer.encode("the"))

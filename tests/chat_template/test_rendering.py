from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError
from tests.data.chat_template.generate import CONVERSATIONS, OUTPUT, TEMPLATES, TOKENS

REFERENCE: list[tuple[str, str, str | None]] = json.loads(Path(OUTPUT).read_text("utf-8"))


@pytest.mark.parametrize(("template", "conversation", "text"), REFERENCE)
def test_text_is_what_transformers_renders(
    template: str, conversation: str, text: str | None
) -> None:
    compiled = ChatTemplate(TEMPLATES[template], **TOKENS)
    if text is None:
        with pytest.raises(ChatTemplateError):
            compiled.render(**CONVERSATIONS[conversation])
    else:
        assert compiled.render(**CONVERSATIONS[conversation]) == text


def test_a_refusal_is_the_templates_own_sentence() -> None:
    template = ChatTemplate(TEMPLATES["alternation"])
    with pytest.raises(ChatTemplateError) as caught:
        template.render(CONVERSATIONS["two users"]["messages"])
    assert caught.value.message == "Roles must alternate: user is at 2"


def test_a_template_that_no_request_could_use_is_told_by_a_trial() -> None:
    for source in ("{{ nobody.name }}", "{{ messages.__class__.__mro__ }}", "{{ 'a' * 10**9 }}"):
        with pytest.raises(ChatTemplateError):
            ChatTemplate(source).try_out()


def test_a_trial_accepts_a_template_that_asks_for_other_messages() -> None:
    wants_system = "{% if messages[0].role != 'system' %}{{ raise_exception('No.') }}{% endif %}"
    ChatTemplate(wants_system).try_out()


def test_a_failure_names_its_line() -> None:
    with pytest.raises(ChatTemplateError, match=r"in line 3: division by zero\.$"):
        ChatTemplate("a\nb\n{{ 1 / 0 }}").render([])


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(ChatTemplateError, match="line 2: "):
        ChatTemplate("a\n{% for %}")


def test_a_missing_end_is_a_syntax_error() -> None:
    with pytest.raises(ChatTemplateError, match="endfor"):
        ChatTemplate("{% for m in messages %}")


@pytest.mark.parametrize("source", ["{{ 1 | nothing }}", "{{ 1 is nothing }}"])
def test_an_unknown_filter_or_test_is_named_at_once(source: str) -> None:
    with pytest.raises(ChatTemplateError, match="'nothing'"):
        ChatTemplate(source)


def test_the_generation_prompt_is_asked_for_unless_declined() -> None:
    template = ChatTemplate("{{ add_generation_prompt }}")
    assert template.render([]) == "True"
    assert template.render([], add_generation_prompt=False) == "False"


def test_tools_and_documents_are_none_unless_given() -> None:
    template = ChatTemplate("{{ tools is none }} {{ documents is none }} {{ other is defined }}")
    assert template.render([]) == "True True False"
    assert template.render([], tools=[1], documents=[2], other=None) == "False False True"


@pytest.mark.parametrize("name", ["bos_token", "eos_token", "raise_exception", "range"])
def test_names_of_the_environment_cannot_be_set(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=f"'{name}' cannot be set"):
        ChatTemplate("").render([], **{name: 1})


def test_the_date_has_the_form_that_the_template_asks_for() -> None:
    date = ChatTemplate("{{ strftime_now('%Y-%m-%d') }}").render([])
    year, month, day = map(int, date.split("-"))
    assert year >= 2024
    assert 1 <= month <= 12
    assert 1 <= day <= 31


def test_lone_surrogates_pass_through() -> None:
    template = ChatTemplate("{{ x }}{{ [x] }}{{ x | tojson }}{{ x | tojson(ensure_ascii=true) }}")
    assert template.render([], x="\ud812é") == '\ud812é[\'\ud812é\']"\ud812é""\ud812\\u00e9"'


def test_an_escaped_backslash_is_no_surrogate() -> None:
    assert ChatTemplate("{{ [x] }}").render([], x="\\ud812") == "['\\\\ud812']"


def test_a_template_can_be_rendered_again_and_again() -> None:
    template = ChatTemplate("{% set n = namespace(i=0) %}{% set n.i = n.i + 1 %}{{ n.i }}")
    assert [template.render([]) for _ in range(3)] == ["1", "1", "1"]

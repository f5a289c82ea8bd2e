"""What a template cannot reach."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mrs
from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError

MESSAGES = [{"role": "user", "content": "hello"}]

ESCAPES = [
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{{ messages[0].content.__init__.__globals__ }}",
    "{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ '{a.__class__.__mro__}'.format_map({'a': 1}) }}",
    "{{ ['x'] | map(attribute='__class__.__mro__') | list }}",
    "{{ self.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ range._function.__globals__ }}",
    "{{ raise_exception.__call__.__func__ }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "{% for i in [1] %}{{ loop._iterator.gi_frame }}{% endfor %}",
    "{{ ([1] | map('string')).gi_frame.f_globals }}",
    "{{ (1).__class__.__bases__ }}",
    "{{ (1).to_bytes(9, 'big') }}",
    "{{ ''.encode().hex() }}",
    "{{ nobody.__init__.x }}",
    "{{ 5() }}",
    "{{ lipsum(n=9) }}",
    "{{ cycler(1).next() }}",
    "{{ ''.join.__self__.x }}",
]

CHANGES = [
    "{{ messages.append(1) }}",
    "{{ messages.clear() }}",
    "{{ messages.pop() }}",
    "{{ messages[0].update(role='system') }}",
    "{{ messages[0].pop('role') }}",
    "{{ messages[0].setdefault('x', 1) }}",
    "{% set messages[0].role = 'system' %}",
]

UNAVAILABLE = [
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% autoescape true %}{% endautoescape %}",
    "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ '' | attr('__class__') }}",
    "{{ 'x' | center(9) }}",
    "{{ [1] | random }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_nothing_of_python_can_be_reached(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source).render(MESSAGES)


@pytest.mark.parametrize("source", CHANGES)
def test_messages_cannot_be_changed(source: str) -> None:
    messages = [dict(MESSAGES[0])]
    with pytest.raises(ChatTemplateError):
        ChatTemplate(source).render(messages)
    assert messages == MESSAGES


@pytest.mark.parametrize("source", UNAVAILABLE)
def test_what_chat_templates_do_not_need_does_not_compile(source: str) -> None:
    with pytest.raises(ChatTemplateError, match="line 1"):
        ChatTemplate(source)


def test_an_attribute_that_is_out_of_reach_is_named() -> None:
    with pytest.raises(ChatTemplateError, match="'__class__' of 'str' object is unsafe"):
        ChatTemplate("{{ ''.__class__.__mro__ }}").render(MESSAGES)


def test_all_templates_run_in_the_sandbox() -> None:
    """SGLang rendered those of a second endpoint without one (CVE-2026-5760)."""
    package = Path(mrs.__file__).parent
    importing = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) jinja2", path.read_text(), re.MULTILINE)
    }
    assert importing == {"chat_template"}
    made = [
        name
        for path in (package / "chat_template").rglob("*.py")
        for name in re.findall(r"\b\w*(?:Environment|Sandbox)\(", path.read_text())
    ]
    assert set(made) == {"TemplateSandbox("}

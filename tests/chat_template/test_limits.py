"""Templates that ask for more time or memory than anyone has.

Each would run for minutes, or take gigabytes, if it were not stopped.
"""

from __future__ import annotations

import pytest

from mrs.chat_template import ChatTemplate, chat_template
from mrs.chat_template.chat_template import MAX_SOURCE_CHARACTERS
from mrs.errors import ChatTemplateError

DOUBLING = "{% set n = namespace(x='a', y=(1,), z=(1,)) %}{% for i in range(60) %}"
NESTED = DOUBLING + "{% set n.y = (n.y, n.y) %}{% set n.z = (n.z, n.z) %}{% endfor %}"
LOOP = "{% for i in range(100000) %}{% for j in range(100000) %}"
END = "{% endfor %}{% endfor %}"
BIG = "{% set big = 'ab ' * 1000000 %}"
NUMBERS = "{% set numbers = range(100000) | list %}"

TOO_MUCH = {
    "loops": f"{LOOP}{END}",
    "output": f"{LOOP}x{END}",
    "loop length": f"{LOOP}{{{{ loop.length }}}}{{% break %}}{END}",
    "literals in a loop": f"{LOOP}{{% set q = [{'1,' * 500}] %}}{END}",
    "text in a loop": f"{LOOP}{'x' * 1000}{END}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "branching": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(60) }}",
    "text in a macro": f"{{% macro m() %}}{'x' * 1000}{{% endmacro %}}"
    f"{LOOP}{{% set q = m() %}}{END}",
    "text in a call": f"{{% macro m() %}}{{{{ caller() }}}}{{% endmacro %}}{LOOP}"
    f"{{% call m() %}}{'x' * 1000}{{% endcall %}}{END}",
    "repeated text": "{{ 'a' * 10**9 }}",
    "repeated text, turned": "{{ 10**9 * 'a' }}",
    "repeated list": "{{ [0] * 10**9 }}",
    "power": "{{ 10**(10**8) }}",
    "product": "{{ 2**4000 * 2**4000 }}",
    "range": "{{ range(10**12) }}",
    "doubled by +": DOUBLING + "{% set n.x = n.x + n.x %}{% endfor %}",
    "doubled by ~": DOUBLING + "{% set n.x = n.x ~ n.x %}{% endfor %}",
    "doubled by a block": DOUBLING
    + "{% set t %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = t %}{% endfor %}",
    "doubled by join": DOUBLING + "{% set n.x = [n.x, n.x] | join %}{% endfor %}",
    "doubled list": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% set n.x = n.x + n.x %}{% endfor %}",
    "nested: print": NESTED + "{{ n.y }}",
    "nested: compare": NESTED + "{{ n.y == n.z }}",
    "nested: hash": NESTED + "{{ {n.y: 1} }}",
    "nested: look up": NESTED + "{{ {1: 1}[n.y] }}",
    "nested: get": NESTED + "{{ {1: 1}.get(n.y) }}",
    "nested: in": NESTED + "{{ n.y in {1: 1} }}",
    "nested: ~": NESTED + "{{ n.y ~ '' }}",
    "nested: tojson": NESTED + "{{ n.y | tojson }}",
    "nested: string": NESTED + "{{ n.y | string }}",
    "nested: min": NESTED + "{{ [n.y, n.z] | min }}",
    "nested: sort": NESTED + "{{ [n.y, n.z] | sort }}",
    "nested: unique": NESTED + "{{ [n.y, n.z] | unique | list }}",
    "nested: index": NESTED + "{{ [n.y].index(n.z) }}",
    "nested: changed": NESTED
    + "{% for i in [1, 2] %}{{ loop.changed(n.y if i == 1 else n.z) }}{% endfor %}",
    "nested: format": NESTED + "{{ '{}'.format(n.y) }}",
    "nested: %": NESTED + "{{ '%s' % (n.y,) }}",
    "nested: test": NESTED + "{{ n.y is eq n.z }}",
    "nested: select": NESTED + "{{ [n.y] | select('eq', n.z) | list }}",
    "nested: namespace": NESTED + "{{ n }}",
    "deep": "{% set n = namespace(x=[1]) %}{% for i in range(9000) %}{% set n.x = [n.x] %}"
    "{% endfor %}{{ n.x }}",
    "width: %": "{{ '%1000000000d' % 1 }}",
    "width: % by argument": "{{ '%*d' % (1000000000, 1) }}",
    "precision: %": "{{ '%.1000000000f' % 1.0 }}",
    "width: filter": "{{ '%1000000000d' | format(1) }}",
    "width: test": "{{ '%1000000000d' is odd }}",
    "width: format": "{{ '{:1000000000}'.format(1) }}",
    "width: format by argument": "{{ '{:{}}'.format(1, 1000000000) }}",
    "width: format_map": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "width: ljust": "{{ 'a'.ljust(10**9) }}",
    "width: zfill": "{{ 'a'.zfill(10**9) }}",
    "width: expandtabs": "{{ '\\t'.expandtabs(10**9) }}",
    "width: indent": "{{ 'a\\nb' | indent(10**9) }}",
    "width: date": "{{ strftime_now('%1000000000Y') }}",
    "width: round": "{{ 1.5 | round(10**9, 'ceil') }}",
    "width: tojson": "{{ [1] | tojson(indent=10**9) }}",
    "separators": "{{ [1, 2] | tojson(separators=[',' * 1000000, ':']) }}",
    "replace": BIG + "{{ big.replace('a', big) }}",
    "replace nothing": BIG + "{{ big.replace('', big) }}",
    "replace filter": BIG + "{{ big | replace('a', big) }}",
    "join": BIG + "{{ big.join(big) }}",
    "join filter": BIG + "{{ range(100000) | join(big) }}",
    "join of one text": BIG + "{{ range(100000) | map('default', big) | map('replace', 1, big)"
    " | map('string') | select('string') | join(big) }}",
    "split in a loop": BIG + LOOP + "{% set q = big.split() %}" + END,
    "lines in a loop": BIG + LOOP + "{% set q = big.splitlines() %}" + END,
    "slice in a loop": BIG + LOOP + "{% set q = big[1:] %}" + END,
    "search in a loop": BIG + LOOP + "{{ 'c' in big }}" + END,
    "strip in a loop": BIG + LOOP + "{% set q = big.strip('c') %}" + END,
    "strip of many": BIG + "{% set q = big.strip('c' * 1000000 ~ 'ab ') %}",
    "search from the right": BIG + "{% set q = big.rsplit('c' ~ big) %}",
    "escape in a loop": DOUBLING + "{% set n.x = (n.x ~ '&&') | escape %}{% for j in range(9999) %}"
    "{% set n.x = (n.x ~ '') | escape %}" + END,
    "list in a loop": NUMBERS + LOOP + "{{ 1 if -1 in numbers }}" + END,
    "sort in a loop": NUMBERS + LOOP + "{% set q = numbers | sort %}" + END,
    "map in a loop": NUMBERS + LOOP + "{% set q = numbers | map('string') | list %}" + END,
    "arguments in a loop": "{% macro m() %}{{ varargs | length }}{% endmacro %}"
    + LOOP
    + "{{ m(*range(99999)) }}"
    + END,
    "path": "{{ ([{}] * 99999) | map(attribute='" + "a." * 999 + "a', default={}) | list }}",
}

TOO_NESTED = {
    "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "lists": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "nots": "{{ " + "not " * 5000 + "1 }}",
    "sums": "{{ 1" + " + 1" * 5000 + " }}",
    "attributes": "{{ a" + ".a" * 5000 + " }}",
    "filters": "{{ 1" + " | string" * 5000 + " }}",
    "loops": "{% for a in b %}" * 100 + "{% endfor %}" * 100,
    "conditions": "{% if a %}" * 2000 + "{% endif %}" * 2000,
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_template_that_asks_for_too_much_is_stopped(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "MAX_STEPS", 200_000)  # a tenth: the tests are many
    template = ChatTemplate(TOO_MUCH[name])
    with pytest.raises(ChatTemplateError):
        template.render([])


def test_the_error_says_that_the_template_was_stopped() -> None:
    with pytest.raises(ChatTemplateError, match="was stopped: it does more work"):
        ChatTemplate(TOO_MUCH["loops"]).render([])


@pytest.mark.parametrize("name", TOO_NESTED)
def test_a_template_that_is_nested_too_deeply_does_not_compile(name: str) -> None:
    with pytest.raises(ChatTemplateError, match="nested too deeply"):
        ChatTemplate(TOO_NESTED[name])


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_a_number_that_is_too_large_does_not_compile(number: str) -> None:
    with pytest.raises(ChatTemplateError, match="does not compile"):
        ChatTemplate(f"{{{{ {number} }}}}")


def test_a_template_that_is_too_long_is_refused() -> None:
    ChatTemplate("x" * MAX_SOURCE_CHARACTERS)
    with pytest.raises(ChatTemplateError, match=str(MAX_SOURCE_CHARACTERS + 1)):
        ChatTemplate("x" * (MAX_SOURCE_CHARACTERS + 1))


def test_a_long_conversation_is_well_within_the_limits() -> None:
    messages = [{"role": "user", "content": "word " * 1000}] * 500
    template = ChatTemplate(
        "{% for m in messages %}{% set c = m.content | trim %}{% if '</x>' in c %}"
        "{% set c = c.split('</x>')[-1] %}{% endif %}"
        "{{ '<|' + m['role'] + '|>' + c ~ '\\n' }}{% endfor %}"
    )
    assert len(template.render(messages)) == 500 * (len("<|user|>") + 4999 + 1)

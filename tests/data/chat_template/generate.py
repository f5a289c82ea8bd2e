# ruff: noqa: E501 -- templates as they are
"""Make `reference.json`: conversations rendered by transformers.

    python -m tests.data.chat_template.generate

from the root of the repository, in an environment that has ``transformers`` (made with 5.24). Tests
read the result and never run this. Each entry is [template, conversation, text], or null for the
text where transformers fails.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.data.chat_template import families

OUTPUT = Path(__file__).with_name("reference.json")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Says <what> the 'weather' is & \"will be\" in Zürich\n今日.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "enum": ["a", "b"]},
                "days": {"type": "integer"},
            },
            "required": ["city"],
        },
    },
}
RICH_TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches.",
        "parameters": {
            "type": "object",
            "properties": {
                "words": {"type": "array", "items": {"type": "string"}},
                "limit": {"type": ["integer", "null"]},
                "where": {"oneOf": [{"type": "string", "nullable": True}, {"type": "number"}]},
                "filter": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "any": {},
            },
            "required": ["words"],
        },
    },
}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "a"}}}

CONVERSATIONS: dict[str, dict[str, Any]] = {
    "user": {"messages": [{"role": "user", "content": " Hi <b>&\n\n"}]},
    "turns": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\n2"},
            {"role": "user", "content": "3"},
        ],
        "enable_thinking": False,
    },
    "two users": {"messages": [{"role": "user", "content": c} for c in "ab"]},
    "tools": {
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": '{"t": 20}'},
        ],
        "tools": [TOOL],
    },
    "none": {"messages": []},
    "long": {
        "messages": [
            {"role": "system", "content": "You are brief. /no_think\n"},
            {"role": "user", "content": " What is it? "},
            {"role": "assistant", "content": "It is <b>."},
            {"role": "user", "content": "And now?"},
        ],
        "documents": [{"title": "one", "text": "1 < 2"}, {"title": "two", "text": "zwei"}],
        "builtin_tools": ["code_interpreter", "search"],
        "controls": {"length": "short"},
        "custom_tools": [TOOL],
        "tools_in_user_message": False,
        "reasoning_effort": "high",
    },
    "rich tools": {
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "hm", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "20"},
            {"role": "tool", "tool_call_id": "c2", "name": "weather", "content": "21"},
            {"role": "assistant", "content": "<think>\nwarm\n</think>\n\nWarm."},
            {"role": "user", "content": "Thanks"},
        ],
        "tools": [RICH_TOOL, TOOL],
        "add_generation_prompt": False,
    },
}

TEMPLATES = families.TEMPLATES | {
    "chatml": """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
    {% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
    {%- endif %}
""",
    "alternation": """{{ bos_token }}{% if messages and messages[0].role == 'system' %}
{{ raise_exception('No system role, please.') }}{% endif %}
{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles must alternate: ' ~ m.role ~ ' is at ' ~ loop.index) }}{% endif %}
[{{ loop.revindex }}{{ ',' if not loop.last }}{{ loop.first }}] {{ m['content'] | trim }}{{ eos_token }}
{% endfor %}""",
    "tools": """{% if tools is not none and tools is iterable and tools | length > 0 %}
{% for t in tools %}{{ t | tojson }}
{{ t.function | tojson(indent=4) }}
{{ t['function'].parameters.properties.keys() | list }}{{ t.function.parameters | string }}
{% for name, p in t.function.parameters.properties | items %}{{ name }}: {{ p.type }}{{ p.get('enum') }};
{% endfor %}{% endfor %}{% else %}no tools{% endif %}
{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}
{%- set call = m.tool_calls[0].function %}
{{- call.name ~ '(' ~ call.arguments | tojson(sort_keys=true, separators=(',', ':')) ~ ')' }}
{% elif 'name' in m %}{{ m.name | upper }}{{ m.content | tojson(ensure_ascii=true) }}
{% endif %}{% endfor %}""",
    "namespace and macros": """{% set ns = namespace(count=0, last='') %}
{% macro show(text, mark='*') -%}{{ mark }}{{ text }}{{ caller() if caller else '' }}{%- endmacro %}
{% for m in messages if m.role != 'system' %}{% set ns.count = ns.count + 1 %}
{% set ns.last = m.content %}{{ show(m.content) }}
{% if loop.index > 2 %}{% break %}{% endif %}{% if m.role == 'tool' %}{% continue %}{% endif %}
{% call show('x', mark='+') %}!{% endcall %}
{% else %}nobody
{% endfor %}{{ ns.count }} {{ ns.last }}
{% set block %}[{{ ns.count * 2 }}]{% endset %}{{ block | replace('[', '<') | e }}""",
    "thinking": """{% for m in messages %}{% set c = m.content | default('', true) %}
{% if '</think>' in c %}{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}
{{ m.role | title }}|{{ c | trim | indent(2) }}|{{ c.startswith('2') }}|{{ c[:1] }}{{ c[::-1] }}
{% endfor %}{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}""",
    "filters": """{{ [3, 1, 2] | sort | join(',') }} {{ {'b': 1, 'a': 2} | dictsort }} {{ 'aXb' | lower }}
{{ messages | map(attribute='role') | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | rejectattr('name', 'defined') | map(attribute='role') | unique | join('/') }}
{{ (1.55 | round(1)) ~ ' ' ~ ('7' | int + 1) ~ ' ' ~ ('x' | float) ~ ' ' ~ (-3 | abs) }} {{ 'a' | capitalize }}
{{ [1, none, 'x', true] }} {{ ('a', 1) }} {{ {'k': ['v', 1.5]} }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 2 ** 5 }} {{ 7 % 4 }}
{{ '%s is %05.1f' % ('x', 2.25) }} {{ '{:>4}|{!r}|{a}'.format('y', 'z', a=1) }} {{ '-' * 5 }} {{ [0] * 2 + [1] }}
{{ 'a,b'.split(',') | last }} {{ 'abc' | reverse }} {{ [1, 2] | first }} {{ 3 is odd }} {{ 'x' in ['x'] }} {{ 1 < 2 < 3 }}
{{ '<' | safe ~ '<' }} {{ ('<' | safe) + '<' }} {{ '"&' | escape }} {{ range(2, 9, 3) | list }} {{ [3, 1] | max }}""",
    "generation": """{% for m in messages %}{% if m.role == 'assistant' %}
{% generation %}{{ m.content }}{% set x = 1 %}{% endgeneration %}{% else %}{{ m.content }}{% endif %}
{% endfor %}""",
    "missing names": "{{ nobody }}{{ messages[9] }}{{ documents }}{% if nobody %}!{% endif %}{{ tools }}",
    "missing attribute": "{{ nobody.name }}",
    "none and text": "{% for m in messages %}{{ 'x' + m.content }}{% endfor %}",
    "white space": "  {% if true %}\n  a\n  {%- if true %} b {% endif -%}\n  c\n{% endif %}\n{# gone #}\n\n",
}  # fmt: skip


def main() -> None:
    from transformers.utils.chat_template_utils import _compile_jinja_template

    entries = []
    for template_name, template in TEMPLATES.items():
        compiled = _compile_jinja_template(template)
        for name, conversation in CONVERSATIONS.items():
            names = {"tools": None, "documents": None, "add_generation_prompt": True}
            try:
                text = compiled.render({**names, **TOKENS, **conversation})
            except Exception:
                text = None
            entries.append([template_name, name, text])
    OUTPUT.write_text(json.dumps(entries, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(len(entries), "renderings,", sum(entry[2] is None for entry in entries), "failures")


if __name__ == "__main__":
    main()

from __future__ import annotations

from dataclasses import replace

import pytest

from mrs.errors import UsageError
from mrs.server.conversation.chat_format import chat_format
from mrs.server.conversation.reasoning import reasoning_format
from mrs.server.conversation.template_traits import CallArguments, template_traits
from mrs.server.conversation.tool_formats import FORMATS, format_named, recognized_format
from tests.server.fake_engine import FakeEngine, served

# What templates of the families say of calls, shortened.
EXCERPTS = {
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.x<|message|>",
    "gemma": "<|tool_call>call:",
    "function_gemma": "<start_function_call>call:",
    "seed": "<seed:tool_call>\n<function=",
    "qwen_coder": "<tool_call>\n<function=example>",
    "glm": "<tool_call>{function-name}\n<arg_key>",
    "glm4": "<|observation|>\n{{ m.content }}",
    "hermes": '<tool_call>\n{"name":',
    "mistral_args": "[TOOL_CALLS]' + name + '[ARGS]",
    "mistral": "[TOOL_CALLS][",
    "deepseek": "<｜tool▁call▁begin｜>function<｜tool▁sep｜>x\n```json",
    "deepseek_v31": "<｜tool▁call▁begin｜>x<｜tool▁sep｜>",
    "liquid": "List of tools: <|tool_list_start|>[",
    "phi": "<|tool|>' + message['tools'] + '<|/tool|>",
    "granite": "respond only with <|tool_call|> followed by a JSON list",
    "command_action": "<|START_ACTION|>[",
    "command_r": 'Action:\n```json\n[{"tool_name":',
    "pythonic": "[func_name1(params_name1=params_value1)]",
    "llama": "Environment: ipython",
    "gemma_tool_code": "wrap it in ```tool_code",
}


def test_every_format_that_has_a_mark_is_recognized() -> None:
    assert EXCERPTS.keys() == {form.name for form in FORMATS} - {"json"}


@pytest.mark.parametrize("name", EXCERPTS)
def test_a_format_is_recognized_by_its_marks(name: str) -> None:
    found = recognized_format("{% if tools %}" + EXCERPTS[name] + "{% endif %}")
    assert found is not None
    assert found.name == name


def test_a_template_without_marks_has_no_format() -> None:
    assert recognized_format("{% for m in messages %}{{ m.content }}{% endfor %}") is None


def test_a_format_can_be_named() -> None:
    assert format_named("llama").name == "llama"
    with pytest.raises(UsageError, match="'lama'"):
        format_named("lama")


def test_the_server_may_know_better_than_the_template() -> None:
    model = served(FakeEngine(), chat_template="<tool_call>")
    assert chat_format(model).tools.name == "hermes"
    assert chat_format(replace(model, tool_format="llama")).tools.name == "llama"


@pytest.mark.parametrize("mention", ["{{ messages[0].thinking }}", "{# thinking #}"])
def test_a_template_that_mentions_thinking_has_no_switch_for_it(mention: str) -> None:
    def switches(template: str) -> bool:
        return chat_format(served(FakeEngine(), chat_template=template)).switches_thinking

    assert not switches(mention)
    assert switches("{% if thinking %}{% endif %}")
    assert switches("{% if enable_thinking %}{% endif %}")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("content.split('</think>')[-1]", "think"),
        ("<seed:think>", "seed"),
        ("between <think></think> and <response></response>", "granite"),
        ("[THINK]", "mistral"),
        ("<|channel>thought\n", "gemma"),
        ("<|START_THINKING|>", "command"),
    ],
)
def test_reasoning_is_recognized_by_its_marks(template: str, name: str) -> None:
    found = reasoning_format(template)
    assert found is not None
    assert found.name == name
    assert reasoning_format("think") is None


LOOP = "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
SHOWS_CALLS = (
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}"
    "{% endfor %}{% endfor %}"
)


def test_a_template_that_knows_all_of_tools() -> None:
    traits = template_traits("{{ tools | tojson }}" + LOOP + SHOWS_CALLS)
    assert traits.shows_tools
    assert traits.shows_results
    assert traits.shows_system
    assert traits.shows_all_calls
    assert traits.calls is CallArguments.OBJECT
    assert traits.variables == {"tools"}


def test_a_template_that_knows_nothing_of_tools() -> None:
    traits = template_traits(LOOP + "{% endfor %}")
    assert not traits.shows_tools
    assert traits.calls is CallArguments.NOT_AT_ALL
    assert traits.shows_system


@pytest.mark.parametrize(
    "written", ["{{ c.function.arguments }}", "{{ '' + c.function.arguments }}"]
)
def test_a_template_that_wants_arguments_as_text(written: str) -> None:
    calls = "{% for c in m.tool_calls or [] %}" + written + "{% endfor %}{% endfor %}"
    assert template_traits(LOOP + calls).calls is CallArguments.TEXT


def test_a_template_that_refuses_roles_and_several_calls() -> None:
    traits = template_traits(
        "{% for m in messages %}{% if m.role not in ('user', 'assistant') %}"
        "{{ raise_exception('no such role') }}{% endif %}"
        "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call') }}{% endif %}"
        "{{ m.content }}{{ (m.tool_calls or []) | tojson }}{% endfor %}"
    )
    assert not traits.shows_system
    assert not traits.shows_results
    assert traits.calls is CallArguments.OBJECT
    assert not traits.shows_all_calls


def test_a_template_that_does_not_compile_shows_nothing() -> None:
    assert not template_traits("{% if %}").shows_tools

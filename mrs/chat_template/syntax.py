"""What a template's source may contain, and the meters that are put into it before it is compiled.

Only statements and expressions that are listed here exist. Loops, comparisons, slices and ``~`` are
compiled to plain Python that the sandbox never sees, so their operands are wrapped in filters that
pay first. The filters' names are no identifiers: no template can write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from jinja2 import nodes, pass_context
from jinja2.exceptions import TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

from mrs.chat_template.budget import CHARACTERS_PER_STEP_BITS, counted, spend, weigh
from mrs.chat_template.predicates import weigh_haystack
from mrs.chat_template.text import text_of

MAX_INTEGER_BITS = 4096

_NODES_PER_STEP = 16
_ALLOWED: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Macro),
    *(nodes.CallBlock, nodes.FilterBlock, nodes.With, nodes.Assign, nodes.AssignBlock, nodes.Scope),
    *(nodes.Break, nodes.Continue, nodes.Name, nodes.NSRef, nodes.Const, nodes.Tuple, nodes.List),
    *(nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call),
    *(nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand),
    *(nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Add, nodes.Sub, nodes.Mul),
    *(nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow),
)


class GenerationTag(Extension):
    """``{% generation %}`` marks the assistant's words for training; here it is only a block."""

    tags = {"generation"}  # noqa: RUF012 -- as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse up to ``{% endgeneration %}``."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def meter(template: nodes.Template) -> None:
    """Check a parsed template and put the meters into it, in place.

    Raises:
        TemplateSyntaxError: it uses something that chat templates may not.
    """
    _Metering().visit(template)


class _Metering(NodeTransformer):
    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if not isinstance(node, _ALLOWED):
            name = type(node).__name__.lower()
            raise TemplateSyntaxError(f"{name!r} is not available in chat templates", node.lineno)
        return super().generic_visit(node, *args, **kwargs)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802
        if isinstance(node.value, int) and node.value.bit_length() > MAX_INTEGER_BITS:
            raise TemplateSyntaxError("a number is too large", node.lineno)
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        if node.recursive:
            raise TemplateSyntaxError("recursive loops are not available", node.lineno)
        steps = _steps(node.body) + (_steps([node.test]) if node.test else 0)
        self.generic_visit(node)
        node.iter = _meter(cast("nodes.Expr", node.iter), _COUNTED, steps)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._with_toll(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._with_toll(node)

    def _with_toll(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        steps = _steps([node])
        self.generic_visit(node)
        toll = _meter(nodes.Const("", lineno=node.lineno), _ENTERED, steps)
        node.body.insert(0, nodes.Output([toll], lineno=node.lineno))
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr = _meter(node.expr, _WEIGHED)
        for operand in node.ops:
            found_in = operand.op in ("in", "notin")
            operand.expr = _meter(operand.expr, _HAYSTACK if found_in else _WEIGHED)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.key = _meter(node.key, _WEIGHED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_meter(child, _SHOWN) for child in node.nodes]
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _meter(node.node, _SLICED)
        return node


def _steps(body: Iterable[nodes.Node]) -> int:
    """What running ``body`` once costs, nested loops counted as if they ran once."""
    count = 0
    characters = 0
    pending = list(body)
    while pending:
        node = pending.pop()
        count += 1
        if isinstance(node, nodes.TemplateData):
            characters += len(node.data)
        pending.extend(node.iter_child_nodes())
    return 1 + count // _NODES_PER_STEP + (characters >> CHARACTERS_PER_STEP_BITS)


def _meter(node: nodes.Expr, filter_name: str, *constants: int) -> nodes.Expr:
    if isinstance(node, nodes.Const) and filter_name != _ENTERED:
        return node
    arguments = [nodes.Const(value, lineno=node.lineno) for value in constants]
    return nodes.Filter(node, filter_name, arguments, [], None, None, lineno=node.lineno)


# Filters with a context are never evaluated at compile time, when nobody would pay.
@pass_context
def _counted(_: Context, values: Any, steps: int) -> Any:
    return counted(values, steps)


@pass_context
def _entered(_: Context, value: Any, steps: int) -> Any:
    spend(steps)
    return value


@pass_context
def _weighed(_: Context, value: Any) -> Any:
    weigh(value)
    return value


@pass_context
def _haystack(_: Context, value: Any) -> Any:
    weigh_haystack(value)
    return value


@pass_context
def _shown(_: Context, value: Any) -> str:
    return text_of(value)


@pass_context
def _sliced(_: Context, value: Any) -> Any:
    spend(1 + (len(value) >> CHARACTERS_PER_STEP_BITS if hasattr(value, "__len__") else 0))
    return value


_COUNTED, _ENTERED, _WEIGHED, _HAYSTACK, _SHOWN, _SLICED = (
    f"meter: {name}" for name in ("loop", "body", "value", "haystack", "text", "slice")
)

METERS: dict[str, Callable[..., Any]] = {
    _COUNTED: _counted,
    _ENTERED: _entered,
    _WEIGHED: _weighed,
    _HAYSTACK: _haystack,
    _SHOWN: _shown,
    _SLICED: _sliced,
}
"""The filters that `meter` puts in, for the environment's table."""

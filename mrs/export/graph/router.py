"""Which experts work on a token, and with what shares.

All in float32, whatever the quantization: a router is small, and a wrong choice costs a whole
expert.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mrs.export.architectures.expert_spec import MoeSpec, RouterKind, RouterSpec
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.weights import Weights

_NEVER = np.float32(-1e30)


@dataclass(frozen=True)
class Routing:
    """What the operators for experts need to know.

    Attributes:
        choice: float32 ``[tokens, experts]``, of which the largest are chosen.
        shares: float32 ``[tokens, experts]``; None where they are the softmax of ``choice``.
        normalize: the shares of the chosen are divided by their sum.
    """

    choice: ir.Value
    shares: ir.Value | None
    normalize: bool


def route(weights: Weights, spec: MoeSpec, block: str, x: ir.Value, hidden: int) -> Routing:
    """Choose experts for ``x``, float32 ``[tokens, hidden]``.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
    """
    logits = _logits(weights, spec, block, x, hidden)
    builder, router = weights.builder, spec.router
    match router.kind:
        case RouterKind.SOFTMAX:
            return _softmax(builder, router, block, logits, spec.experts)
        case RouterKind.SIGMOID:
            return _sigmoid(weights, router, block, logits, spec.experts)
        case RouterKind.SPARSE_MIXER:
            shares = _sparse_mixer(builder, router, block, logits, spec.experts)
            return Routing(shares, shares, normalize=False)


def _logits(weights: Weights, spec: MoeSpec, block: str, x: ir.Value, hidden: int) -> ir.Value:
    builder, name = weights.builder, f"{block}.ffn_gate_inp"
    table = builder.weight(
        f"{name}.weight", weights.table(f"{name}.weight", (spec.experts, hidden))
    )
    logits = builder.contrib("FusedMatMul", [x, table], name, {"transB": 1})
    if f"{name}.bias" not in weights.checkpoint.tensors:
        return logits
    bias = builder.weight(f"{name}.bias", weights.vector(f"{name}.bias", spec.experts))
    return builder.op("Add", [logits, bias], f"{name}.biased")


def _softmax(
    builder: GraphBuilder, router: RouterSpec, block: str, logits: ir.Value, experts: int
) -> Routing:
    if router.groups == router.groups_used:
        return Routing(logits, None, router.normalize)
    shares = builder.op("Softmax", [logits], f"{block}.router.shares", {"axis": -1})
    choice = _best_groups(builder, router, block, shares, experts)
    return Routing(choice, shares, router.normalize)


def _sigmoid(
    weights: Weights, router: RouterSpec, block: str, logits: ir.Value, experts: int
) -> Routing:
    builder, name = weights.builder, f"{block}.exp_probs_b"
    shares = builder.op("Sigmoid", [logits], f"{block}.router.shares")
    bias = builder.weight(f"{name}.bias", weights.vector(f"{name}.bias", experts))
    choice = builder.op("Add", [shares, bias], f"{block}.router.corrected")
    if router.groups != router.groups_used:
        choice = _best_groups(builder, router, block, choice, experts)
    return Routing(choice, shares, router.normalize)


def _best_groups(
    builder: GraphBuilder, router: RouterSpec, block: str, scores: ir.Value, experts: int
) -> ir.Value:
    """The scores of the experts of the best groups; next to nothing for all others."""
    name = f"{block}.router.groups"
    members = experts // router.groups
    shape = builder.constant(
        f"{router.groups}_groups_of_{members}", int64s(0, router.groups, members)
    )
    grouped = builder.op("Reshape", [scores, shape], name)
    last = builder.constant("last_axis", int64s(-1))
    best = _top(builder, grouped, router.group_best, f"{name}.best")[0]
    worth = builder.op("ReduceSum", [best, last], f"{name}.worth", {"keepdims": 0})
    chosen = _top(builder, worth, router.groups_used, f"{name}.chosen")[1]
    places = builder.op("Unsqueeze", [chosen, last], f"{name}.chosen_column")
    every = builder.constant(f"groups_{router.groups}", np.arange(router.groups, dtype=np.int64))
    found = builder.op("Equal", [places, every], f"{name}.found")
    numbers = builder.op("Cast", [found], f"{name}.counted", {"to": ir.DataType.FLOAT})
    second = builder.constant("second_last_axis", int64s(-2))
    mask = builder.op("ReduceMax", [numbers, second], f"{name}.mask", {"keepdims": 0})
    mask = builder.op("Cast", [mask], f"{name}.is_chosen", {"to": ir.DataType.BOOL})
    mask = builder.op("Unsqueeze", [mask, last], f"{name}.mask_of_members")
    never = builder.constant("never_chosen", np.array(_NEVER))
    kept = builder.op("Where", [mask, grouped, never], f"{name}.kept")
    flat = builder.constant(f"flat_groups_{experts}", int64s(0, experts))
    return builder.op("Reshape", [kept, flat], f"{block}.router.choice")


def _top(builder: GraphBuilder, x: ir.Value, count: int, name: str) -> tuple[ir.Value, ir.Value]:
    """The largest of the last axis, and where they are."""
    best, places = ir.Value(name=name), ir.Value(name=f"{name}.places")
    number = builder.constant(f"top_{count}", int64s(count))
    builder.op("TopK", [x, number], name, {"axis": -1}, outputs=[best, places])
    return best, places


def _sparse_mixer(
    builder: GraphBuilder, router: RouterSpec, block: str, logits: ir.Value, experts: int
) -> ir.Value:
    """Two experts after one another; all others have a share of 0."""
    name = f"{block}.router"
    never = builder.constant("never_chosen", np.array(_NEVER))
    nothing = builder.constant("no_share", np.array(0, dtype=np.float32))
    every = builder.constant(f"experts_{experts}", np.arange(experts, dtype=np.int64))
    last = builder.constant("last_axis", int64s(-1))
    size = builder.op("Abs", [logits], f"{name}.size")
    left, shares = logits, []
    for turn in ("first", "second"):
        turn_name = f"{name}.{turn}"
        best = builder.op("ReduceMax", [left, last], f"{turn_name}.best")
        place = builder.op("ArgMax", [left], f"{turn_name}.place", {"axis": -1, "keepdims": 1})
        is_best = builder.op("Equal", [place, every], f"{turn_name}.is_best")
        # Relative distance from the best, by the larger of the two.
        larger = builder.op("Max", [size, best], f"{turn_name}.larger")
        distance = builder.op("Sub", [best, logits], f"{turn_name}.distance")
        relative = builder.op("Div", [distance, larger], f"{turn_name}.relative")
        limit = builder.constant("jitter", np.array(2 * router.jitter, dtype=np.float32))
        far = builder.op("Greater", [relative, limit], f"{turn_name}.far")
        near = builder.op("Where", [far, never, left], f"{turn_name}.near")
        odds = builder.op("Softmax", [near], f"{turn_name}.odds", {"axis": -1})
        shares.append(builder.op("Where", [is_best, odds, nothing], f"{turn_name}.share"))
        left = builder.op("Where", [is_best, never, left], f"{turn_name}.left")
    return builder.op("Add", shares, f"{name}.shares")

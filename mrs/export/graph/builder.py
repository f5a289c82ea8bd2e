"""Collects the nodes and initializers of one ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.graph.weight_file import StoredTensor, WeightFile

OPSET = 23
CONTRIB_DOMAIN = "com.microsoft"
# The oldest IR version that holds opset 23; nothing newer is used.
_IR_VERSION = 11

Made = TypeVar("Made")


class GraphBuilder:
    """A graph under construction, whose large initializers go straight to a weight file.

    Args:
        weight_file: where `weight` writes.
    """

    def __init__(self, weight_file: WeightFile) -> None:
        self.weight_file = weight_file
        self._nodes: list[ir.Node] = []
        self._initializers: dict[str, ir.Value] = {}
        self._constants: dict[str, NDArray[Any]] = {}
        self._shared: dict[Hashable, Any] = {}

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        name: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        outputs: Sequence[ir.Value] | None = None,
    ) -> ir.Value:
        """Add a node and return its first output, which is called ``name`` unless given."""
        outputs = outputs if outputs is not None else [ir.Value(name=name)]
        node = ir.node(
            op_type, inputs, dict(attributes or {}), domain=domain, outputs=outputs, name=name
        )
        self._nodes.append(node)
        return outputs[0]

    def contrib(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        name: str,
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[ir.Value] | None = None,
    ) -> ir.Value:
        """Add a node of ONNX Runtime's own operator set."""
        return self.op(op_type, inputs, name, attributes, domain=CONTRIB_DOMAIN, outputs=outputs)

    def scaled(
        self, x: ir.Value, factor: float, name: str, *, constant: str | None = None
    ) -> ir.Value:
        """``x * factor``; ``x`` itself where the factor is 1.

        Args:
            x: float32.
            factor: of all elements.
            name: of the product, before ``.scaled``.
            constant: name of the factor; by default ``name`` with ``.scale``.
        """
        if factor == 1.0:
            return x
        value = np.array(factor, dtype=np.float32)
        scale = self.constant(constant or f"{name}.scale", value)
        return self.op("Mul", [x, scale], f"{name}.scaled")

    def constant(self, name: str, value: NDArray[Any]) -> ir.Value:
        """A small initializer kept inside the graph file; asked for again, it is shared.

        Raises:
            ValueError: the name is taken by something else.
        """
        known = self._constants.get(name)
        # Of one type too: an integer 0 is no float 0.
        if known is not None and known.dtype == value.dtype and np.array_equal(known, value):
            return self._initializers[name]
        self._constants[name] = value
        return self._initializer(ir.tensor(value, name=name), value.shape)

    def shared(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` makes, made only once for each ``key``."""
        if key not in self._shared:
            self._shared[key] = make()
        made: Made = self._shared[key]
        return made

    def weight(self, name: str, value: NDArray[Any]) -> ir.Value:
        """An initializer that is in memory, written to the weight file."""
        stored = self.weight_file.append([value], value.nbytes)
        return self.stored(stored, name, ir.DataType.from_numpy(value.dtype), value.shape)

    def stored(
        self, stored: StoredTensor, name: str, dtype: ir.DataType, shape: tuple[int, ...]
    ) -> ir.Value:
        """An initializer over bytes that are in the weight file already."""
        return self._initializer(self.weight_file.tensor(stored, name, dtype, shape), shape)

    def model(
        self, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], producer: str
    ) -> ir.Model:
        """The finished model, its initializers sorted by name."""
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=self._nodes,
            initializers=[self._initializers[key] for key in sorted(self._initializers)],
            opset_imports={"": OPSET, CONTRIB_DOMAIN: 1},
            name=name,
        )
        return ir.Model(graph, ir_version=_IR_VERSION, producer_name=producer)

    def _initializer(self, tensor: ir.TensorProtocol, shape: tuple[int, ...]) -> ir.Value:
        name = str(tensor.name)
        if name in self._initializers:
            raise ValueError(f"the graph has an initializer {name!r} already")
        value = ir.Value(
            name=name,
            shape=ir.Shape(shape),
            type=ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        self._initializers[name] = value
        return value


def int64s(*values: int) -> NDArray[np.int64]:
    """A 1-D int64 array, as shape-like operator inputs want it."""
    return np.array(values, dtype=np.int64)

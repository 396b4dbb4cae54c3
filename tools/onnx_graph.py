"""Writes an ONNX graph node by node. Knows operators and constants, no particular model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

ELEMENT = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


class GraphWriter:
    """Collects nodes and constants; every method that adds one returns the name of its value.

    Names count upwards in the order of the calls, so the same calls always give the same bytes.
    """

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def constant(self, value: ArrayLike, dtype: DTypeLike = np.float32) -> str:
        """Add a tensor that is part of the file."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(value, dtype), f"c{len(self._constants)}")
        self._constants.append(tensor)
        return tensor.name

    def int64(self, *values: int) -> str:
        """Add a list of integers: axes, shapes, bounds."""
        return self.constant(values, np.int64)

    def operator(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output."""
        return self.operators(kind, *inputs, outputs=1, **attributes)[0]

    def operators(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add an operator with several outputs."""
        names = [f"{kind}{len(self._nodes)}_{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names

    def result(self, kind: str, *inputs: str, name: str) -> None:
        """Add the operator whose output is the graph's, under a name that callers may rely on."""
        self._nodes.append(helper.make_node(kind, inputs, [name]))

    def graph(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        """Everything written so far, as one graph."""
        return helper.make_graph(self._nodes, name, inputs, outputs, self._constants)


def tensor_info(name: str, dtype: str, shape: Sequence[str | int | None]) -> ValueInfoProto:
    """Describe an input or output; a string in the shape names a free dimension."""
    return helper.make_tensor_value_info(name, ELEMENT[dtype], shape)

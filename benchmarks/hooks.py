"""How long a client's hooks take, cold, as ratios to `python -c "import mcp.server"` in the same run.

    python -m benchmarks.hooks [--records 400] [--runs 11]

Each process is started in turn with the others, and the medians are compared. Absolute times are of this machine and
moment only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.texts import sentences
from mcp_memory.app import open_app
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.services.memory.task_stack import PushRequest
from mcp_memory.settings import load_settings

MEASURE = "import mcp.server"
BOUNDS: Mapping[str, float | None] = {
    "SessionStart": 1.5, "UserPromptSubmit": 3.0, "PostToolUse": None, "Stop": None, "PreCompact": None,
    "PostCompact": None, "SessionEnd": None,
}  # fmt: skip
KINDS: Sequence[Kind] = ("fact", "decision", "episode", "procedure", "fact")
SESSION = "benchmark-session"


def main() -> None:
    """Fill a store, start every hook in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=400, help="size of the store")
    parser.add_argument("--runs", type=int, default=11, help="how often each process is started")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        transcript = Path(folder) / "transcript.jsonl"
        fill(Path(folder) / "data", arguments.records)
        taken: dict[str, list[float]] = {name: [] for name in ("", *BOUNDS)}
        for number in range(arguments.runs + 1):  # The first brings files into the system's cache.
            for name, times in taken.items():
                add_turn(transcript, f"{name}-{number}")
                times.append(seconds(name, Path(folder) / "data", transcript, number))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    table = Table("hook", "median", f'beside python -c "{MEASURE}"', "bound")
    for name, bound in BOUNDS.items():
        ratio = f"{medians[name] / medians['']:.2f} x"
        table.add_row(name, f"{1000 * medians[name]:.0f} ms", ratio, f"<= {bound}" if bound else "")
    Console(width=110).print(table, f'python -c "{MEASURE}": {1000 * medians[""]:.0f} ms')


def fill(data_dir: Path, count: int) -> None:
    """A store of facts, decisions, episodes and procedures, and a small stack of tasks."""
    with closing(open_app(load_settings(data_dir=data_dir, namespace="benchmark"))) as app:
        texts = sentences(count, seed=1)
        items = [NewRecord(text=text, kind=KINDS[place % len(KINDS)]) for place, text in enumerate(texts)]
        app.remember(items, app.caller())
        for goal in ("Move the payment service", "Measure the billing job before the move"):
            app.tasks.push(PushRequest(goal=goal), app.caller())


def add_turn(transcript: Path, name: str) -> None:
    """What a hook finds new in the transcript: a question, a call, its result, an answer."""
    parts = (
        ("user", f"What does the billing job do in step {name}?"),
        (
            "assistant",
            [{"type": "tool_use", "id": f"call-{name}", "name": "Bash", "input": {"command": f"cat {name}"}}],
        ),
        ("user", [{"type": "tool_result", "tool_use_id": f"call-{name}", "content": "retries = 3\n" * 40}]),
        ("assistant", [{"type": "text", "text": f"In step {name} it retries three times, on port 5433."}]),
    )
    with transcript.open("a", encoding="utf-8") as file:
        for place, (role, content) in enumerate(parts):
            message = {"role": role, "content": content}
            line = {"type": role, "message": message, "uuid": f"{name}-{place}", "sessionId": SESSION}
            file.write(json.dumps(line) + "\n")


def seconds(name: str, data_dir: Path, transcript: Path, number: int) -> float:
    """From spawn to exit; without a name, of what hooks are measured by."""
    payload = {
        "session_id": f"{SESSION}-{number if name == 'UserPromptSubmit' else 0}",
        "transcript_path": str(transcript),
        "cwd": str(data_dir),
        "source": "startup",
        "prompt": "Why did Alice measure the billing job?",
        "compact_summary": "The billing job was measured: it retries three times.",
    }
    command = [sys.executable, *(("-m", "mcp_memory", "hook", name) if name else ("-c", MEASURE))]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MCP_MEMORY_")}
    environment = kept | {
        "MCP_MEMORY_DATA_DIR": str(data_dir),
        "MCP_MEMORY_CONFIG": str(data_dir / "none.toml"),
        "MCP_MEMORY_NAMESPACE": "benchmark",
    }
    started = time.perf_counter()
    done = subprocess.run(command, input=json.dumps(payload).encode(), capture_output=True, env=environment, check=True)
    taken = time.perf_counter() - started
    assert not done.stderr, done.stderr
    assert bool(done.stdout) == (name in ("SessionStart", "UserPromptSubmit", "PreCompact")), (name, done.stdout)
    return taken


if __name__ == "__main__":
    main()

"""What a client's hooks cost, cold: alone, each opening the memory, and answered by a running server.

    python -m benchmarks.hooks [--records 400] [--runs 11]

Each process is started in turn with the others, and the medians are compared: from spawn to exit as ratios to
`python -c "import mcp.server"` in the same run, and the CPU of the hook's own process. Absolute times are of this
machine and moment only.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.texts import sentences
from mcp_memory.app import open_app
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.settings import load_settings

MEASURE = "import mcp.server"
BOUNDS: Mapping[str, float | None] = {
    "SessionStart": 1.5, "UserPromptSubmit": 3.0, "PostToolUse": None, "Stop": None, "PreCompact": None,
    "PostCompact": None, "SessionEnd": None,
}  # fmt: skip
KINDS: Sequence[Kind] = ("fact", "decision", "episode", "procedure", "fact")
SESSION = "benchmark-session"
SERVED_CPU_MS = 100
ENDING_SECONDS = 3.0


def main() -> None:
    """Fill a store, start every hook in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=400, help="size of the store")
    parser.add_argument("--runs", type=int, default=11, help="how often each process is started")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        data_dir = Path(folder) / "data"
        fill(data_dir, arguments.records)
        alone = measured(data_dir, "alone", arguments.runs)
        with running_server(data_dir):
            served = measured(data_dir, "served", arguments.runs)
    table = Table("hook", "alone", "CPU", f'beside "{MEASURE}"', "bound", "served", "CPU", "bound")
    for name, bound in BOUNDS.items():
        (seconds_alone, cpu_alone), (seconds_served, cpu_served) = alone[name], served[name]
        ratio, most = f"{seconds_alone / alone[''][0]:.2f} x", f"<= {bound}" if bound else ""
        shown = (seconds_alone, cpu_alone, seconds_served, cpu_served)
        first, second, third, fourth = (f"{1000 * each:.0f} ms" for each in shown)
        table.add_row(name, first, second, ratio, most, third, fourth, f"<= {SERVED_CPU_MS} ms")
    Console(width=120).print(table, f'python -c "{MEASURE}": {1000 * alone[""][0]:.0f} ms')


def measured(data_dir: Path, way: str, runs: int) -> Mapping[str, tuple[float, float]]:
    """The median seconds of every hook, from spawn to exit, and of CPU; under "" of what they are measured by."""
    transcript = data_dir.with_name(f"{way}.jsonl")
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ("", *BOUNDS)}
    for number in range(runs + 1):  # The first brings files into the system's cache.
        for name, times in taken.items():
            add_turn(transcript, f"{name}-{number}")
            times.append(seconds(name, data_dir, transcript, f"{way}-{number if name == 'UserPromptSubmit' else 0}"))
        time.sleep(ENDING_SECONDS)  # in which what goes on behind a session's end is done
    medians = {
        name: [statistics.median(column) for column in zip(*times[1:], strict=True)] for name, times in taken.items()
    }
    return {name: (wall, cpu) for name, (wall, cpu) in medians.items()}


@contextmanager
def running_server(data_dir: Path) -> Generator[None]:
    """A server of the memory, that has answered a recall."""
    command = [sys.executable, "-m", "mcp_memory"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(data_dir)) as server:
        assert server.stdin
        assert server.stdout
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "claude-code", "version": "1"},
        }
        for line in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "recall", "arguments": {"query": "billing"}}},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
            server.stdin.flush()
            if "id" in line:
                server.stdout.readline()
        yield


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


def seconds(name: str, data_dir: Path, transcript: Path, session: str) -> tuple[float, float]:
    """From spawn to exit, and of CPU; without a name, of what hooks are measured by."""
    done, wall, cpu = ended(name, data_dir, transcript, session)
    # Of a large store, alone: its time is the least that it would have taken.
    gave_up = b"took too long" in done.stderr
    is_right = bool(done.stdout) == (name in ("SessionStart", "UserPromptSubmit", "PreCompact"))
    assert gave_up or (is_right and not done.stderr), (name, done.stdout, done.stderr)
    return wall, cpu


def ended(
    name: str, data_dir: Path, transcript: Path, session: str
) -> tuple[subprocess.CompletedProcess[bytes], float, float]:
    """A hook's process that has ended, with its seconds from spawn to exit, and of CPU."""
    payload = {
        "session_id": f"{SESSION}-{session}",
        "transcript_path": str(transcript),
        "cwd": str(data_dir),
        "source": "startup",
        "prompt": "Why did Alice measure the billing job?",
        "compact_summary": "The billing job was measured: it retries three times.",
    }
    command = [sys.executable, *(("-m", "mcp_memory", "hook", name) if name else ("-c", MEASURE))]
    before, started = cpu_of_children(), time.perf_counter()
    done = subprocess.run(
        command, input=json.dumps(payload).encode(), capture_output=True, env=environment(data_dir), check=True
    )
    return done, time.perf_counter() - started, cpu_of_children() - before


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(data_dir: Path) -> Mapping[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MCP_MEMORY_")}
    return kept | {
        "MCP_MEMORY_DATA_DIR": str(data_dir),
        "MCP_MEMORY_CONFIG": str(data_dir / "none.toml"),
        "MCP_MEMORY_NAMESPACE": "benchmark",
        "MCP_MEMORY_IDLE_MINUTES": "0",
    }


if __name__ == "__main__":
    main()

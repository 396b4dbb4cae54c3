"""One session as its client has it: a transcript, and hooks, each a process of its own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import run_forked

PATIENCE_SECONDS = 60.0
SESSION = "0a1b2c3d-0000-4000-8000-000000000001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a hook's process left."""

    code: int
    out: bytes
    err: bytes

    @property
    def context(self) -> str:
        """What it adds to the conversation."""
        assert not self.err, self.err
        return json.loads(self.out)["hookSpecificOutput"]["additionalContext"]


class Session:
    """A session of the client: its transcript, and hooks that are told of it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.transcript = folder / "transcript.jsonl"
        self.environment = dict(environment)
        self.folder = folder

    def say(self, uuid: str, role: str, content: Any) -> None:
        line = {"type": role, "message": {"role": role, "content": content}, "uuid": uuid, "sessionId": SESSION}
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def hook(self, name: str, **payload: str) -> Ran:
        """Run a hook of this session."""
        told = {
            "session_id": SESSION,
            "transcript_path": str(self.transcript),
            "cwd": str(self.folder),
            "hook_event_name": name,
            **payload,
        }
        return self.run(json.dumps(told).encode(), name)

    def run(self, raw: bytes, *arguments: str, code: str = "", **environment: str) -> Ran:
        variables = {**self.environment, **environment}
        done = run_forked("hook", *arguments, code=code, input=raw, env=variables, timeout=PATIENCE_SECONDS)
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

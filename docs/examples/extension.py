"""An extension of mcp-memory: one pass, one preset, one watcher. docs/compaction.md explains it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mcp_memory.domain.model.session_log import (
    PRESETS,
    CompactionOptions,
    Count,
    PassPlan,
    SessionLog,
    preserved,
    replacing,
)
from mcp_memory.services.sessions.compact import Compacted

GREETINGS = frozenset({"hello", "hi", "thanks", "thank you", "ok", "great"})


@dataclass(frozen=True)
class Greetings:
    """Drops what the assistant says when it only greets or thanks."""

    count: Count
    name: str = "greetings"

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        kept = preserved(log, options)
        idle = [
            entry
            for place, entry in enumerate(log.entries)
            if place not in kept and entry.role == "assistant" and entry.text.strip(" .!").lower() in GREETINGS
        ]
        if len(idle) < 10:
            return PassPlan(reason=f"{len(idle)} greetings are too few for a block")
        block = replacing(tuple(idle), "tools", lambda own: f"[SUMMARIZED] Greetings. (open {own})", self.count)
        return PassPlan(reason=f"{len(idle)} greetings", replacements=(block,))


def passes(count: Count) -> Iterable[Greetings]:
    return [Greetings(count)]


presets = {"polite": CompactionOptions(window=50_000, passes=("greetings", *PRESETS["default"].passes))}


def watch(done: Compacted) -> None:
    with Path("compactions.log").open("a", encoding="utf-8") as log:
        log.write(f"{done.trigger}: {done.before.tokens} -> {done.after.tokens}\n")

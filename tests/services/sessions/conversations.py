"""Conversations for tests: working turns of a size that can be reckoned, with values worth keeping."""

from collections.abc import Iterator

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import SessionLog


def turn(number: int, *, output_lines: int = 40, failed: bool = False) -> Iterator[NewRecord]:
    """The user asks, the assistant says why, reads a file, and says what came of it: 14 tokens a line of output."""
    yield NewRecord(
        kind="message", role="user", text=f"Please move the service {_name(number)} to port {5400 + number}."
    )
    yield NewRecord(
        kind="message",
        role="assistant",
        text=f"Let me read the settings of {_name(number)} first, to see where its port is set.",
    )
    path = f"services/{_name(number)}/settings.toml"
    yield NewRecord(
        kind="tool_call", role="assistant", tool="read_file", call_id=f"call{number}", text=f'{{"path":"{path}"}}'
    )
    lines = [f"option_{line} = {line * 7 + number}  # tuned by hand" for line in range(output_lines)]
    if failed:
        lines.append(f"PermissionError: {path} is not readable")
    yield NewRecord(
        kind="tool_result",
        role="tool",
        tool="read_file",
        call_id=f"call{number}",
        text="\n".join(lines),
        outcome="failure" if failed else None,
    )
    yield NewRecord(
        kind="message",
        role="assistant",
        text=f"Done: {_name(number)} listens on port {5400 + number} now. "
        f"We decided to keep its old port {6400 + number} open until March because clients still use it.",
    )


def session(turns: int, *, output_lines: int = 40) -> list[NewRecord]:
    """So many turns, each about other things; every fourth fails at its file."""
    return [
        record for number in range(turns) for record in turn(number, output_lines=output_lines, failed=number % 4 == 3)
    ]


def fed(app: App, caller: Caller, turns: int, *, output_lines: int = 40) -> SessionLog:
    """The log of a session with so many turns."""
    app.feed(session(turns, output_lines=output_lines), caller)
    return app.logs.log(caller)


def covered(log: SessionLog) -> list[str]:
    """The originals that the log's entries cover, as often as they are covered."""
    return [record_id for entry in log.entries for record_id in entry.covers]


def _name(number: int) -> str:
    first = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "juno")
    second = ("relay", "vault", "queue", "proxy", "ledger", "mirror", "beacon", "sluice", "turbine", "kiosk")
    return f"{first[number % 10]}-{second[number // 10 % 10]}"

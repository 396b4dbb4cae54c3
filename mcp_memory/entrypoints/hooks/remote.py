"""Answers hooks whose memory lies on a server over HTTP: sends what they need of this machine, and keeps their notes.

What a session was given, and how much of its transcript the log has, is noted here: the server keeps nothing of hooks.
"""

import json
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2

from mcp_memory.bounded_files import bounded_lines, open_regular
from mcp_memory.entrypoints.hooks.events import mark_before, unread_from, was_fed_long_ago
from mcp_memory.entrypoints.hooks.hook_call import REMOTE_PATH, HookCall
from mcp_memory.entrypoints.hooks.session_notes import Noted
from mcp_memory.entrypoints.server.remote_address import connection_options, endpoint, headers_for
from mcp_memory.errors import InvalidRequest, StoreUnavailable

if TYPE_CHECKING:
    from mcp_memory.entrypoints.conversations.rewound import Branches
    from mcp_memory.settings import Settings

TIMEOUT_SECONDS: Final = 2.5
"""Less than a hook waits for the process that asks for it."""
STORING_SECONDS: Final = 10.0
"""Time for a piece of the transcript; a hook that cannot wait so long leaves the rest to the next one."""
PIECE_BYTES: Final = 128 * 1024
MAX_LINE_BYTES: Final = 1024 * 1024
"""A longer line, of an image mostly, is left out: with a piece beside it, it has to fit into a request."""
BEFORE_BYTES: Final = 64 * 1024
"""As far before a result its call is looked for, as in a file."""
MOST_IDS: Final = 30_000
"""Ids of lines that the user took back, and of the others: with a piece beside them, they fit into a request."""
_FEEDING: Final = frozenset({"PostToolUse", "Stop", "PreCompact", "SessionEnd"})
_ANSWERED: Final = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse", "PreCompact", "PostCompact"})
_SENT: Final = ("session_id", "source", "trigger", "prompt", "compact_summary", "tool_name", "tool_input")


class RemoteMemory:
    """The memory at the address that the settings name. Thread-safe."""

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings
        self._url = endpoint(settings.url or "").rstrip("/") + REMOTE_PATH

    @cached_property
    def _client(self) -> httpx2.Client:
        options = connection_options(self._url)
        return httpx2.Client(headers=headers_for(self._settings), **options)

    def act(self, name: str, hook: HookCall) -> str:
        """Do what the hook of that name does, and return what it prints.

        Raises:
            InvalidRequest: there is no such transcript.
            StoreUnavailable: the server does not answer, or refuses.
        """
        if name == "SessionStart":
            hook.notes.prune()
            if hook.payload.source != "resume":
                hook.notes.forget_given()
        if name in _FEEDING and hook.settings.hook_log and (name != "PostToolUse" or was_fed_long_ago(hook)):
            # Without a transcript there is still something to say before a compaction.
            with suppress(InvalidRequest) if name in _ANSWERED else nullcontext():
                self._feed(hook)
        return self._asked(name, hook) if name in _ANSWERED and _is_wanted(name, hook) else ""

    def _asked(self, name: str, hook: HookCall) -> str:
        answer = self._post(name, hook)
        hook.given += [str(each) for each in answer.get("given", ())]
        return str(answer.get("output", ""))

    def _feed(self, hook: HookCall) -> None:
        """Send the transcript's new lines piece by piece: an early end loses nothing."""
        from mcp_memory.entrypoints.conversations.rewound import branches_in, goes_back

        path, start = Path(hook.payload.transcript_path), unread_from(hook)
        while start is not None:
            try:
                before, lines, end = read_piece(path, start)
            except OSError as error:
                raise InvalidRequest(f"The transcript cannot be read ({error.strerror}).") from error
            if lines:
                branches = branches_in(path) if goes_back(before, lines) else None
                self._post("Stop", hook, before, lines, branches)
            if end <= start:
                return
            mark = mark_before(path, end)
            hook.notes.write(Noted(folder=str(hook.folder), fed_until=end, fed_mark=mark))
            start = end

    def _post(
        self, name: str, hook: HookCall, before: bytes = b"", lines: bytes = b"", branches: "Branches | None" = None
    ) -> Mapping[str, Any]:
        """Send the question as a line of JSON, and behind it lines of the transcript as they are.

        Raises StoreUnavailable.
        """
        settings = hook.settings
        question = {
            "hook": name,
            "payload": {each: getattr(hook.payload, each) for each in _SENT},
            "given": [] if lines else sorted(hook.notes.given()),
            "max_tokens": (settings.hook_max_tokens, settings.hook_prompt_max_tokens),
            "log": settings.hook_log,
            "before": len(before),
        }
        if branches:
            question |= {"left": branches.left[-MOST_IDS:], "standing": branches.standing[-MOST_IDS:]}
        try:
            body = b"".join((json.dumps(question, ensure_ascii=False).encode(), b"\n", before, lines))
            patience = httpx2.Timeout(TIMEOUT_SECONDS, read=STORING_SECONDS if lines else TIMEOUT_SECONDS)
            response = self._client.post(self._url, content=body, timeout=patience)
            answer = response.json() if response.status_code == 200 else None
        except (httpx2.HTTPError, ValueError) as error:
            why = f"gave no answer ({type(error).__name__})"
            raise StoreUnavailable(f"The memory at {self._settings.url} {why}; is its server up?") from error
        if not isinstance(answer, dict):
            why = f"refused ({response.status_code}: {response.text[:200].strip()})"
            raise StoreUnavailable(f"The memory at {self._settings.url} {why}.")
        return cast("dict[str, Any]", answer)


def _is_wanted(name: str, hook: HookCall) -> bool:
    """True where the settings of this machine let the hook add or keep something."""
    settings = hook.settings
    wanted: Mapping[str, object] = {
        "SessionStart": settings.hook_max_tokens,
        "UserPromptSubmit": settings.hook_prompt_max_tokens and hook.payload.prompt.strip(),
        "PreToolUse": settings.hook_guardrails and hook.payload.tool_input,
        "PreCompact": True,
        "PostCompact": settings.hook_log,
    }
    return bool(wanted[name])


def read_piece(path: Path, start: int) -> tuple[bytes, bytes, int]:
    """Return what is before a byte of a file, finished lines from there on, and the byte behind them.

    Raises OSError.
    """
    with open_regular(path.expanduser()) as file:
        file.seek(max(start - BEFORE_BYTES, 0))
        before = file.read(start - file.tell())
        lines, end = b"", start
        for raw in bounded_lines(file, MAX_LINE_BYTES):
            if raw is not None and not raw.endswith(b"\n"):
                break
            lines += raw or b""
            end = file.tell()
            if len(lines) >= PIECE_BYTES:
                break
    return before, lines, end

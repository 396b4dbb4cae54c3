"""For programs that run an agent loop of their own: keeps a conversation inside its window by a memory server.

Without a server it counts tokens, and shortens texts until they fit.

    async with Client(StdioServerParameters(command="mcp-memory")) as client:
        conversation = Conversation(client, session_id="exports", window=200_000)
        messages = await conversation.fitted(messages)

`Client` and `StdioServerParameters` are those of the protocol's library, `mcp`. docs/compaction.md has a whole loop.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp_memory.app import text_measure
from mcp_memory.domain.context.compress import compressed
from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.entrypoints.conversations.applying import apply
from mcp_memory.errors import McpMemoryError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from mcp import Client, ClientSession

__all__ = ["Conversation", "MemoryRefused", "MemoryTool", "apply", "compress", "count_tokens"]
ENCODING = "o200k_base"
"""The encoding that counts where a call names none, as the settings do."""
ANSWER_TOKENS = 1_000_000
"""The answer is read by a program, so nothing is left out of it."""


class MemoryRefused(McpMemoryError):
    """The server refused a call; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One conversation of your agent, in a connected client. `window` is your model's, in its tokens.

    `options` are further arguments of `compact`, such as `{"preset": "aggressive"}`.
    """

    client: Client | ClientSession
    session_id: str
    window: int
    options: Mapping[str, Any] | None = None

    async def fitted(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Log the messages and return them as they are to be sent: shorter, where they fill the window.

        They may be the whole conversation or what an earlier call returned, with what came since. Call it before each
        request to your model, and go on with what it returns.

        Raises:
            MemoryRefused: the server did not take the messages.
        """
        arguments = {"session_id": self.session_id, "window": self.window, "messages": list(messages)}
        answer = await _call(self.client, "compact", {"max_tokens": ANSWER_TOKENS, **arguments, **(self.options or {})})
        return apply(messages, answer)

    async def recalled(self, ids: Sequence[str], max_tokens: int = 20_000) -> list[dict[str, Any]]:
        """Return the originals that replacements name: entries with `id`, `kind`, `text` and `occurred_at`.

        Raises:
            MemoryRefused: the server did not answer.
        """
        opened = await _call(self.client, "recall", {"ids": list(ids), "detail": "full", "max_tokens": max_tokens})
        return list(opened["results"])


async def _call(client: Client | ClientSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise MemoryRefused(" ".join(getattr(part, "text", "") for part in result.content))
    return result.structured_content or (result.meta or {}).get(tool, {})


ROOT: Final = "/memories"
FILE_TAG: Final = "memory-file"
"""The tag of the records that are files."""
_PAGE: Final = 100
"""Files that one call lists."""
_MOST_LINES: Final = 999_999
_SNIPPET_LINES: Final = 4
"""Lines shown before and behind an edit."""


@dataclass(frozen=True, kw_only=True)
class _MemoryFile:
    """A file: the record that holds it, at the version that was seen, and its text."""

    id: str
    version: int
    text: str


class _Refused(Exception):
    """The command cannot be done; the message is for the model."""


@dataclass(frozen=True, kw_only=True)
class MemoryTool:
    """Anthropic's memory tool over a memory server, for a program that calls the Messages API.

    Declare `{"type": "memory_20250818", "name": "memory"}`, and hand each call to `answered`. Files are facts of the
    client's project, shared like others: the first line is the path, `recall` finds them, and what is deleted can be
    restored. Blank lines at a file's end are not kept, and secrets are cut out. Texts and errors are those of
    https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool.
    """

    client: Client | ClientSession

    async def answered(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a block `tool_use` of the model asks, and return the block `tool_result` for it.

        A command that fails is an error for the model; nothing is raised for what it asked.
        """
        result = {"type": "tool_result", "tool_use_id": call["id"]}
        try:
            return {**result, "content": await self._done(call.get("input") or {})}
        except _Refused as error:
            return {**result, "content": str(error), "is_error": True}
        except MemoryRefused as error:
            return {**result, "content": f"Error: {error}", "is_error": True}

    async def _done(self, given: Mapping[str, Any]) -> str:
        commands: Mapping[str, Callable[..., Awaitable[str]]] = {
            "view": self._view, "create": self._create, "str_replace": self._replace, "insert": self._insert,
            "delete": self._delete, "rename": self._rename,
        }  # fmt: skip
        command = commands.get(str(given.get("command")))
        if command is None:
            raise _Refused(f"Error: The commands are {', '.join(commands)}.")
        arguments = {name: value for name, value in given.items() if name != "command"}
        for name in ("path", "old_path", "new_path"):
            if name in arguments:
                arguments[name] = _inside(arguments[name])
        try:
            return await command(**arguments)
        except (TypeError, ValueError, AttributeError) as error:
            raise _Refused(f"Error: The arguments do not fit `{given['command']}`.") from error

    async def _view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        files = await self._files()
        if (file := files.get(path)) is not None:
            lines = file.text.split("\n")
            if len(lines) > _MOST_LINES:
                raise _Refused(f"File {path} exceeds maximum line limit of 999,999 lines.")
            first, last = view_range or (1, -1)
            if first < 1 or first > len(lines) or (last != -1 and last < first):
                bounds = f"It should be within the range of lines of the file: [1, {len(lines)}]"
                raise _Refused(f"Error: Invalid `view_range` parameter: {list(view_range or ())}. {bounds}")
            shown = _numbered(lines, first - 1, len(lines) if last == -1 else last)
            return f"Here's the content of {path} with line numbers:\n{shown}"
        if path != ROOT and not _below(files, path):
            raise _Refused(f"The path {path} does not exist. Please provide a valid path.")
        left_out = "excluding hidden items and node_modules"
        head = f"Here're the files and directories up to 2 levels deep in {path}, {left_out}:"
        return "\n".join([head, *(f"{_size(size)}\t{name}" for name, size in _listed(files, path))])

    async def _create(self, path: str, file_text: str) -> str:
        files = await self._files()
        taken = path == ROOT or path in files or _below(files, path)
        if taken or any(path.startswith(f"{name}/") for name in files):
            raise _Refused(f"Error: File {path} already exists")
        item = {"text": _record(path, file_text), "kind": "fact", "tags": [FILE_TAG]}
        stored = (await _call(self.client, "remember", item))["records"][0]
        cut = f" (cut out: {counted(stored['redacted'], 'secret')})" if stored.get("redacted") else ""
        return f"File created successfully at: {path}{cut}"

    async def _replace(self, path: str, old_str: str, new_str: str = "") -> str:
        file = await self._file(path, ". Please provide a valid path.")
        places = [at for at in range(len(file.text)) if file.text.startswith(old_str, at)] if old_str else []
        if not places:
            raise _Refused(f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")
        if len(places) > 1:
            lines = ", ".join(str(file.text.count("\n", 0, at) + 1) for at in places)
            told = f"Multiple occurrences of old_str `{old_str}` in lines: {lines}"
            raise _Refused(f"No replacement was performed. {told}. Please ensure it is unique")
        text = file.text.replace(old_str, new_str)
        await self._write(path, file, text)
        line, lines = text.count("\n", 0, places[0]), text.split("\n")
        until = line + new_str.count("\n") + 1 + _SNIPPET_LINES
        return f"The memory file has been edited.\n{_numbered(lines, max(line - _SNIPPET_LINES, 0), until)}"

    async def _insert(self, path: str, insert_line: int, insert_text: str) -> str:
        file = await self._file(path)
        lines = file.text.split("\n") if file.text else []
        if not 0 <= insert_line <= len(lines):
            bounds = f"It should be within the range of lines of the file: [0, {len(lines)}]"
            raise _Refused(f"Error: Invalid `insert_line` parameter: {insert_line}. {bounds}")
        lines[insert_line:insert_line] = [insert_text.removesuffix("\n")]
        await self._write(path, file, "\n".join(lines))
        return f"The file {path} has been edited."

    async def _delete(self, path: str) -> str:
        ids = [file.id for _, file in await self._moved(path)]
        for start in range(0, len(ids), _PAGE):
            await _call(self.client, "forget", {"ids": ids[start : start + _PAGE]})
        return f"Successfully deleted {path}"

    async def _rename(self, old_path: str, new_path: str) -> str:
        moved, files = await self._moved(old_path), await self._files()
        is_taken = new_path in files or new_path == ROOT or _below(files, new_path)
        if is_taken or f"{new_path}/".startswith(f"{old_path}/"):
            raise _Refused(f"Error: The destination {new_path} already exists")
        for path, file in moved:
            await self._write(new_path + path.removeprefix(old_path), file, file.text)
        return f"Successfully renamed {old_path} to {new_path}"

    async def _files(self) -> dict[str, _MemoryFile]:
        """Return all files by their paths; of two that were made at once the newer one."""
        found: dict[str, _MemoryFile] = {}
        offset = 0
        while True:
            asked = {"tags": [f"+{FILE_TAG}"], "kinds": ["fact"], "detail": "full", "limit": _PAGE, "offset": offset}
            page = (await _call(self.client, "recall", {**asked, "max_tokens": ANSWER_TOKENS}))["results"]
            for each in page:
                path, _, text = str(each["text"]).partition("\n\n")
                file = _MemoryFile(id=each["id"], version=each["version"], text=text)
                if path not in found or found[path].version < file.version:
                    found[path] = file
            if not page:
                return found
            offset += len(page)

    async def _file(self, path: str, rest: str = "") -> _MemoryFile:
        if (file := (await self._files()).get(path)) is None:
            raise _Refused(f"Error: The path {path} does not exist{rest}")
        return file

    async def _moved(self, path: str) -> list[tuple[str, _MemoryFile]]:
        """Return the file at the path, or all in the directory there."""
        files = await self._files()
        if path == ROOT:
            raise _Refused(f"Error: {ROOT} itself stays; name a file or a directory in it")
        found = [(path, files[path])] if path in files else _below(files, path)
        if not found:
            raise _Refused(f"Error: The path {path} does not exist")
        return found

    async def _write(self, path: str, file: _MemoryFile, text: str) -> None:
        """Put the text into the file's record, unless somebody changed that since it was read."""
        changed = {"id": file.id, "version": file.version, "text": _record(path, text)}
        await _call(self.client, "revise", changed)


def _inside(path: object) -> str:
    """Return the path without `..` and the like. Raises _Refused where it is not in the directory of memories."""
    whole = posixpath.normpath(path) if isinstance(path, str) and path.startswith("/") and path.isprintable() else ""
    if whole != ROOT and not whole.startswith(f"{ROOT}/"):
        raise _Refused(f"Error: The path {path} is not in {ROOT}. Please provide a valid path.")
    return whole


def _record(path: str, text: str) -> str:
    return f"{path}\n\n{text}"


def _below(files: Mapping[str, _MemoryFile], path: str) -> list[tuple[str, _MemoryFile]]:
    return [(name, file) for name, file in files.items() if name.startswith(f"{path}/")]


def _listed(files: Mapping[str, _MemoryFile], path: str) -> Iterator[tuple[str, int]]:
    """Yield what a listing shows of a directory, itself first, with bytes."""
    sizes: dict[str, int] = {path: 0}
    for name, file in sorted(_below(files, path)):
        parts = name.removeprefix(f"{path}/").split("/")
        if any(part.startswith(".") or part == "node_modules" for part in parts):
            continue
        for depth in range(min(len(parts), 2) + 1):
            shown = "/".join((path, *parts[:depth]))
            sizes[shown] = sizes.get(shown, 0) + len(file.text.encode())
    yield from sizes.items()


def _size(count: int) -> str:
    """Return a number of bytes for people: 512 is "512", 1536 "1.5K"."""
    if count < 1024:
        return str(count)
    return f"{count / 1024:.1f}K" if count < 1024**2 else f"{count / 1024**2:.1f}M"


def _numbered(lines: Sequence[str], first: int, until: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines[first:until], first + 1))


def count_tokens(text: str, *, model: str = "", encoding: str = ENCODING) -> int:
    """Return the tokens of the text as assembly counts them, 0 for "".

    For a `model` or client whose tokenizer is not public ("claude-opus-4-7") they are estimated from the encoding's,
    rather too many than too few.
    """
    return text_measure(encoding, client=model).count(text)


def compress(
    items: Sequence[Mapping[str, Any]], target: int, *, model: str = "", encoding: str = ENCODING
) -> list[dict[str, Any]]:
    """Return the items, in their order, with texts cut until all together have at most `target` tokens.

    An item has a `text`, a `score`, by default 0, and whatever else. That of the lowest score is cut first, of equal
    ones the last, each to about a third; where that is not enough, all are cut once more.

    Raises:
        InvalidRequest: an item has no text, or they do not fit at their shortest; the message says what they take.
    """
    return compressed(items, target, text_measure(encoding, client=model))

"""Recognises the memory's own traffic: what this server returned, calls of its tools, and its client's housekeeping."""

import re

from mcp_memory.domain.model.records import Record

_FENCE_START = re.compile(r'<memory-context id="c[0-9a-f]+">\n')
_FENCE_END = "\n</memory-context>"
_BLOCK = re.compile(r'<memory-context id="c[0-9a-f]+">.*?(?:</memory-context>|\Z)', re.DOTALL)
# A bare id must look like one: "[research] x" is user text.
_LABEL = re.compile(
    r"\s*(?:- )?\[(?:(r[0-9a-z]{6,}) [a-z_]+ \d{4}-\d\d-\d\d[^\]\n]{0,60}|(r0[0-9a-z]{5})(?: by [^\]\n]{1,40})?)\]\s*"
)
# e.g. "[r000017 ", "[r000017]"
_ID = re.compile(r"\[(r[0-9a-z]{6,})[ \]]")

_OWN_TOOLS = ("assemble_context", "compact", "forget", "pop_task", "push_task", "recall", "remember", "revise")
_CLIENTS_TOOLS = frozenset(
    "toolsearch todowrite todoread listmcpresources listmcpresourcestool readmcpresource readmcpresourcetool"
    " enterplanmode bashoutput taskoutput killshell taskstop".split()
)
"""Tools by which Claude Code keeps house, in small letters; what they did shows in other calls."""
# e.g. "/exit", "/clear"
_COMMAND = re.compile(r"/[a-z-]{1,30}")


def without_blocks(text: str) -> str:
    """Replace each context block in the text by a placeholder: the log keeps the conversation, not the shown memory.

    A pattern for whole blocks would search for an end behind every beginning: minutes for many.
    """
    parts: list[str] = []
    rest = 0
    for opening in _FENCE_START.finditer(text):
        if opening.start() < rest:
            continue
        closing = text.find(_FENCE_END, opening.end())
        if closing < 0:
            break
        parts += (text[rest : opening.start()], "[recalled context]")
        rest = closing + len(_FENCE_END)
    return "".join([*parts, text[rest:]])


def strip_recalled(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without context blocks and item labels, and the record ids that those named, in order."""
    ids: dict[str, None] = {}
    for block in _BLOCK.findall(text):
        ids.update(dict.fromkeys(_ID.findall(block)))
    rest = _BLOCK.sub("", text).strip() if ids else text
    label = _LABEL.match(rest)
    if label:
        ids[label[1] or label[2]] = None
        rest = rest[label.end() :]
    return rest, tuple(ids)


def is_own_traffic(record: Record) -> bool:
    """Return True for a call of this memory's tools or its result, and for what only keeps the client running.

    Clients put the server's name before a tool's: "mcp__mcp-memory__recall", "memory.recall", "recall"; "doc_recall"
    is another's. A command to the client with words of the user is the user's: "/review the importer".
    """
    if record.kind == "message":
        return _is_command(record.text.strip())
    if record.kind not in ("tool_call", "tool_result"):
        return False
    tool = (record.tool or "").casefold()
    server = next((tool.removesuffix(name) for name in _OWN_TOOLS if tool.endswith(name)), None)
    if not server:
        return server == "" or tool in _CLIENTS_TOOLS
    return not server[-1].isalnum() and (server.startswith("mcp") or "memory" in server)


def _is_command(text: str) -> bool:
    """Return True for a command to the client without words of the user, typed or as the client marks it."""
    if not text.startswith(("<command-name>", "<command-message>")):
        return _COMMAND.fullmatch(text) is not None
    _, _, given = text.partition("<command-args>")
    return not given.partition("<")[0].strip()

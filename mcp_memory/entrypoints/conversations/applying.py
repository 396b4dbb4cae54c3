"""Puts the replacements of a compaction into a client's own messages. Knows no file, no server and no log.

What is not replaced stays the very object that it was, images and documents included. The rules of the interfaces that
the result keeps are in docs/compaction.md.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from mcp_memory.domain.model.session_log import LABELS
from mcp_memory.domain.sessions.log_dedup import replaced_by
from mcp_memory.entrypoints.conversations.form_writing import Translated
from mcp_memory.entrypoints.conversations.message_forms import PLACE
from mcp_memory.entrypoints.conversations.messages import MessageReader, results_first
from mcp_memory.entrypoints.conversations.shown_parts import words_apart
from mcp_memory.errors import InvalidRequest

Message: TypeAlias = Mapping[str, Any]
Numbers: TypeAlias = frozenset[int]

_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_OF_ANTHROPIC: Final = frozenset({"tool_use"}) | _RESULTS | _THINKING
_OF_OPENAI: Final = frozenset({"image_url", "input_text", "output_text", "input_image", "input_audio", "input_file"})
_OTHERS: Final = {"mcp_approval_response": "reason", "mid_conv_system": "content"}
"""Types of parts that say whose words they hold, and the field with these."""
_BESIDE: Final = ("tool_calls", "function_call", "refusal")
# e.g. "1-17", "(18 20-22)", "?"
_TOLD = re.compile(r"\((?P<many>[\d\- ]{1,1000000})\)|(?P<run>\d{1,12}(?:-\d{1,12})?)|(?P<unknown>\?)")


@dataclass(slots=True)
class _Piece:
    """One part of a message: its place there, how many entries of the log it is, and what becomes of it.

    `field` and `index` give its position: in the content, among the calls, or "" for the message itself. `entries`
    are places among all entries of the conversation; none for what the log leaves out, such as thinking.
    """

    field: str
    index: int
    kinds: tuple[str, ...]
    value: Any
    entries: tuple[int, ...] = ()
    text: str | None = None
    is_gone: bool = False

    @property
    def is_changed(self) -> bool:
        return self.is_gone or self.text is not None

    @property
    def is_apart(self) -> bool:
        """True for a text that is an entry by itself: a block of an earlier compaction, or another's words."""
        return _holds_others(self.value) or replaced_by(_text(self.value)) is not None

    @property
    def new(self) -> Any:
        return self.value if self.text is None else _with_text(self.value, self.text)


@dataclass(slots=True)
class _Made:
    """A message of the result: the place of its source among the given, None for a block."""

    message: dict[str, Any]
    source: int | None
    separator: str = ""


@dataclass(slots=True)
class _Conversation:
    """Given messages and their parts, numbered as the log numbers them."""

    messages: Sequence[Message]
    pieces: list[list[_Piece]] = field(default_factory=list[list[_Piece]])
    entries: int = 0

    def __post_init__(self) -> None:
        for message in self.messages:
            found = _pieces(message)
            is_text = False
            for piece in found:
                # Consecutive texts of a message are one entry, but for blocks of an earlier compaction.
                is_plain = piece.kinds == ("message",) and not piece.is_apart
                if is_text and is_plain:
                    piece.entries = (self.entries - 1,)
                elif piece.kinds:
                    piece.entries = tuple(range(self.entries, self.entries + len(piece.kinds)))
                    self.entries += len(piece.kinds)
                is_text = is_plain if piece.kinds else is_text
            self.pieces.append(found)

    def __iter__(self) -> Iterator[_Piece]:
        return (piece for found in self.pieces for piece in found)


def apply(messages: Sequence[Message], answer: Message) -> list[dict[str, Any]]:
    """Return the messages with the replacements of `answer` in their places, valid for their interface.

    `answer` is the structured result of `compact`; give it the messages that you sent in that call. Messages of the
    Anthropic and the OpenAI interfaces and items of OpenAI's Responses stay what they are. Neither argument changes.

    Messages of other forms come back in theirs (`message_forms`).

    Raises:
        InvalidRequest: these are not the messages that the answer is about.
    """
    translated = Translated(messages)
    if (form := translated.form) is None:
        return _applied(messages, answer, is_merged=not _is_openai(messages))
    made = _applied(translated.plain, answer, is_merged=form.alternates)
    return [translated.written(message) for message in made]


def _applied(messages: Sequence[Message], answer: Message, *, is_merged: bool) -> list[dict[str, Any]]:
    conversation = _Conversation(messages)
    replacements = [each for each in answer.get("replacements", ()) if each.get("covers")]
    told = _told(conversation, answer, replacements)
    _mark(conversation, told, replacements)
    changed = [place for place, found in enumerate(conversation.pieces) if any(piece.is_changed for piece in found)]
    if not changed:
        return _with_results_first([cast("dict[str, Any]", message) for message in messages])
    _drop_thinking(conversation, changed)
    made = list(_made(conversation, told, {number: each for each in replacements for number in _numbers(each)}))
    return _with_results_first([each.message for each in (_merged(made) if is_merged else made)])


def _numbers(replacement: Message) -> Numbers:
    return frozenset(_spread(replacement["covers"]))


def _spread(runs: str) -> Iterator[int]:
    for run in runs.split():
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _told(conversation: _Conversation, answer: Message, replacements: Sequence[Message]) -> list[Numbers]:
    """Return, for each entry of the conversation, the numbers of the originals that it is or replaces."""
    given = answer.get("told")
    if isinstance(given, str):
        told: list[Numbers] = []
        for found in _TOLD.finditer(given):
            if found["run"]:
                told += [frozenset((number,)) for number in _spread(found["run"])]
            else:
                told.append(frozenset(_spread(found["many"] or "")))
        if len(told) == conversation.entries:
            return told
    is_compacted = any(replaced_by(_text(piece.value)) for piece in conversation)
    most = max((number for each in replacements for number in _numbers(each)), default=0)
    if is_compacted or most > conversation.entries:
        raise InvalidRequest(
            "These are not the messages that this answer is about: send them in the call of compact, and apply its "
            "answer to the same list."
        )
    return [frozenset((number,)) for number in range(1, conversation.entries + 1)]


def _mark(conversation: _Conversation, told: Sequence[Numbers], replacements: Sequence[Message]) -> None:
    """Mark each part that a replacement replaces: as gone, or with its new text."""
    owner = {number: each for each in replacements for number in _numbers(each)}
    said: set[int] = set()
    for piece in conversation:
        numbers = frozenset[int]().union(*(told[entry] for entry in piece.entries))
        if not numbers or not owner.keys() >= numbers:
            continue
        by = owner[min(numbers)]
        if by["form"] not in ("mask", "external") or len(_numbers(by)) > 1:
            piece.is_gone = True
        elif len(piece.kinds) == 1 and not _is_servers(piece.value):
            # A message's text may be in several parts: the first gets the new one.
            piece.is_gone = piece.entries[0] in said
            piece.text = by["text"]
            said.add(piece.entries[0])
    for found in conversation.pieces:
        # A call, its result and a person's leave may be one part of the client's, which goes as a whole.
        left = {_place(piece.value) for piece in found if piece.kinds and not piece.is_gone}
        for piece in found:
            piece.is_gone = piece.is_gone and (_place(piece.value) is None or _place(piece.value) not in left)


def _place(part: Any) -> Any:
    return cast("Message", part).get(PLACE) if isinstance(part, Mapping) else None


def _holds_others(part: Any) -> bool:
    return isinstance(part, Mapping) and words_apart(cast("Message", part)) is not None


def _is_servers(part: Any) -> bool:
    """Return True for a result that only the interface's own server may write, such as that of a web search."""
    kind = _kind(part)
    return kind.endswith("tool_result") and kind not in _RESULTS


def _drop_thinking(conversation: _Conversation, changed: Sequence[int]) -> None:
    """Mark thinking as gone behind the first change, and in changed messages.

    Newer models accept it only if nothing before it has changed, older ones do not need that of earlier turns. While
    a tool loop runs, the thinking of its unchanged messages stays, since older models ask for it.
    """
    turn = 1 + max((place for place, each in enumerate(conversation.messages) if _is_asked(each)), default=-1)
    last = conversation.pieces[-1]
    is_waiting = any({"tool_call", "tool_result"} & {*piece.kinds} for piece in last)
    for place in range(changed[0], len(conversation.pieces)):
        if place in changed or place < turn or not is_waiting:
            for piece in conversation.pieces[place]:
                piece.is_gone = piece.is_gone or _kind(piece.value) in _THINKING
    items = [found[0] for found in conversation.pieces if found]
    for before, after in pairwise(items):
        # OpenAI's Responses take an item of reasoning only with the item that followed it.
        if not before.field and _kind(before.value) == "reasoning" and after.is_changed:
            before.is_gone = True


def _made(conversation: _Conversation, told: Sequence[Numbers], owner: Mapping[int, Message]) -> Iterator[_Made]:
    """Yield the messages that are left, and each block where the first part that it replaces was.

    A block amid a user's message parts it: what stood before the block stays before it.
    """
    shown: set[str] = set()
    separator = ""
    for place, found in enumerate(conversation.pieces):
        message = conversation.messages[place]
        left: list[_Piece] = []
        for piece in found:
            if not piece.is_gone:
                left.append(piece)
            elif piece.entries and (numbers := told[piece.entries[0]]) and piece.text is None:
                block = owner[min(numbers)]
                if block["id"] not in shown:
                    shown.add(block["id"])
                    if _is_parted(message, left) and (before := _changed(message, left)):
                        yield _Made(before, place, separator)
                        left = []
                    yield _Made({"role": "user", "content": block["text"]}, None)
                separator = f"[{LABELS['tools']}] (open {block['id']})"
        rest = _changed(message, left) if any(piece.is_changed for piece in found) else message
        if rest is not None:
            yield _Made(cast("dict[str, Any]", rest), place, separator)
            separator = ""


def _is_parted(message: Message, pieces: Sequence[_Piece]) -> bool:
    """Return True for parts that may stand in a message of their own: a user's words, or blocks among them."""
    is_users = str(message.get("role")).lower() == "user"
    return is_users and any(piece.kinds for piece in pieces) and all({*piece.kinds} <= {"message"} for piece in pieces)


def _changed(message: Message, pieces: Sequence[_Piece]) -> dict[str, Any] | None:
    """Return the message with these parts alone, in their new texts; None where nothing is left of it."""
    said = [piece for piece in pieces if piece.kinds]
    if not said:
        return None
    if not said[0].field:
        return said[0].new
    kept = {name: value for name, value in message.items() if name not in _BESIDE}
    name = "content" if "content" in message else "text"
    shown = [piece for piece in pieces if piece.field == "content" and _kind(piece.value) not in _THINKING]
    values = [piece.new for piece in shown] if any(piece.kinds for piece in shown) else []
    kept[name] = (values if isinstance(message.get(name), list) else values[0]) if values else None
    for piece in said:
        if piece.field == "tool_calls":
            kept["tool_calls"] = [*kept.get("tool_calls", ()), piece.new]
        elif piece.field != "content":
            kept[piece.field] = piece.new
    return kept


def _with_text(value: Any, text: str) -> Any:
    """Return a part, a call or a result that says this text instead."""
    if not isinstance(value, Mapping):
        return text
    part = dict(cast("Mapping[str, Any]", value))
    kind = _kind(part)
    if kind.endswith("_call_output"):
        return {**part, "output": text}
    if kind in _RESULTS or part.get("role") in ("tool", "function"):
        return {**part, "content": text}
    if kind in _OTHERS:
        return {**part, _OTHERS[kind]: text if kind == "mcp_approval_response" else [{"type": "text", "text": text}]}
    if kind.endswith("tool_use"):
        return {**part, "input": {"archived": text}}
    if "arguments" in part:
        return {**part, "arguments": json.dumps({"archived": text}, ensure_ascii=False, separators=(",", ":"))}
    for name in ("function", "custom"):
        if isinstance(part.get(name), Mapping):
            return {**part, name: _with_text(part[name], text)}
    if "input" in part:
        return {**part, "input": text}
    place = {PLACE: part[PLACE]} if PLACE in part else {}
    kind = kind if kind.endswith("_text") else "input_text" if kind in _OF_OPENAI else "text"
    return {"type": kind, "text": text, **place}


def _merged(made: Sequence[_Made]) -> list[_Made]:
    """Return the messages with those of one role as one, where only what stood between them is gone."""
    merged: list[_Made] = []
    for each in made:
        before = merged[-1] if merged else None
        is_new = before is None or before.message.get("role") != each.message.get("role")
        if before is None or is_new or (before.source is not None and each.source == before.source + 1):
            merged.append(each)
            continue
        first, second = _listed(before.message), _listed(each.message)
        is_apart = any(replaced_by(_text(part)) or _kind(part) in _RESULTS for part in (first[-1], second[0]))
        between = [] if is_apart or not each.separator else [{"type": "text", "text": each.separator}]
        parts = results_first(each.message.get("role"), cast("list[Any]", [*first, *between, *second]))
        merged[-1] = _Made(
            {**before.message, "content": parts}, each.source if each.source is not None else before.source
        )
    return merged


def _with_results_first(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with results directly behind their calls, before any text that was given between them."""
    ordered: list[dict[str, Any]] = []
    behind: int | None = None  # the place behind the latest calls that OpenAI's chat names beside a text
    for message in messages:
        content = message.get("content")
        if message.get("role") == "tool" and behind is not None:
            ordered.insert(behind, message)
            behind += 1
            continue
        parts = results_first(message.get("role"), cast("list[Any]", content)) if isinstance(content, list) else content
        ordered.append(message if parts == content else {**message, "content": parts})
        behind = len(ordered) if message.get("tool_calls") else behind
    return ordered


def _listed(message: Message) -> list[Any]:
    content = message.get("content")
    return cast("list[Any]", content) if isinstance(content, list) else [{"type": "text", "text": content}]


def _pieces(message: Message) -> list[_Piece]:
    """Return the parts of a message in the order in which the log has them."""
    role = message.get("role")
    if not isinstance(role, str) or role.lower() in ("tool", "function"):
        return [_Piece("", 0, _kinds(message), message)]
    content = message.get("content", message.get("text"))
    parts = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    pieces = [
        _Piece("content", place, _kinds({"role": role, "content": [part]}), part)
        for place, part in enumerate(results_first(role, parts))
    ]
    for name in ("refusal", "tool_calls", "function_call"):
        given = message.get(name) or ()
        values: Sequence[Any] = cast("list[Any]", given) if isinstance(given, list) else [given] if given else ()
        for place, value in enumerate(values):
            one = {"role": role, name: [value] if isinstance(given, list) else value}
            pieces.append(_Piece(name, place, _kinds(one), value))
    return pieces


def _kinds(message: Message) -> tuple[str, ...]:
    return tuple(record.kind for record in MessageReader().read(message, "message"))


def _kind(part: Any) -> str:
    kind = cast("Message", part).get("type") if isinstance(part, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _text(part: Any) -> str:
    """Return the text of a part, or of what a tool was given or gave; "" where it is no text."""
    if isinstance(part, Mapping):
        fields = cast("Message", part)
        part = next((fields[name] for name in ("text", "content", "output", "arguments") if name in fields), "")
    return part if isinstance(part, str) else ""


def _is_asked(message: Message) -> bool:
    """Return True for what the user says: a turn begins there."""
    if message.get("role") != "user":
        return False
    return any(piece.kinds == ("message",) and not replaced_by(_text(piece.value)) for piece in _pieces(message))


def _is_openai(messages: Sequence[Message]) -> bool:
    """Return True for messages that only OpenAI's interfaces take; those that both take may be merged."""
    kinds = {_kind(part) for message in messages for part in _listed(message)}
    if kinds & _OF_ANTHROPIC:
        return False
    return bool(kinds & _OF_OPENAI) or any(
        message.get("role") not in ("user", "assistant") or not message.keys().isdisjoint({*_BESIDE, "name"})
        for message in messages
    )

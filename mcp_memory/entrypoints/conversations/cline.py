"""Messages of Cline and its forks Roo Code and Kilo Code, read as parts of Anthropic's interface, and written back.

These clients put the results of tools as text into the user's role, in frames of their own, and older ones read calls
out of the agent's text. Only a frame that stands where its client puts it is read so: at the beginning of a part, in a
message that a client of this family made.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from mcp_memory.domain.memory.harness import heard
from mcp_memory.domain.sessions.log_dedup import replaced_by
from mcp_memory.entrypoints.conversations.form_parts import Part, text_of

_HEAD: Final = "_head"
"""The field of a part with what stood before it in its client's text: the frame of a result, or the tag of a call."""
_ASKING: Final = frozenset(
    "ask_followup_question attempt_completion plan_mode_respond act_mode_respond new_task switch_mode condense"
    " summarize_task report_bug".split()
)
"""Tools whose results are the user's answers, in a frame of the client's."""
_TOOLS: Final = _ASKING | frozenset(
    "execute_command read_file write_to_file replace_in_file apply_diff apply_patch insert_content edit_file"
    " delete_file search_and_replace search_replace search_files list_files list_code_definition_names codebase_search"
    " web_search web_fetch browser_action use_mcp_tool access_mcp_resource load_mcp_documentation fetch_instructions"
    " use_skill update_todo_list focus_chain new_rule generate_explanation generate_image run_slash_command"
    " use_subagents".split()
)
_NAMES = "|".join(sorted(_TOOLS))
# "[read_file for 'a.py'] Result:", "[new_task for creating a new task] Result:", "[attempt_completion] Result: Done"
_RESULT = re.compile(
    r"\[(?P<tool>\w{3,60})(?: (?:for|to|in) .{1,20000}?)?\] Result:(?P<rest> Done\b)?(?=\n|\Z)", re.DOTALL | re.ASCII
)
# "Tool [read_file] was not executed because a tool has already been used in this message. …"
_NOT_DONE = re.compile(
    r"(?:Tool|Skipping tool) \[(?P<tool>\w{3,60})[^\n]{0,2000}\] "
    r"(?:was not executed because a tool has already been used in this message"
    r"|was interrupted and not executed due to user rejecting a previous tool|due to user rejecting a previous tool)\."
)
# "<environment_details>\n# Visual Studio Code Visible Files\n…\n</environment_details>"
_ENVIRONMENT = re.compile(r"\s*<environment_details>\n.*</environment_details>\s*", re.DOTALL)
# "<task>\nAdd a test\n</task>", and what the client says before it
_FRAME_OPENS = re.compile(r"^<(?P<tag>task|user_message|answer|feedback)>\n", re.MULTILINE)
# '<user_input mode="plan">Add a test</user_input>', before it a notice that the mode changed
_INPUT = re.compile(
    r"\s*(?:<mode_notice>[^<]{0,300}</mode_notice>\s*)?"
    r"<user_input mode=\"(?:act|plan|yolo)\">(?P<words>.*?)</user_input>",
    re.DOTALL,
)
_WORKFLOW: Final = "<explicit_instructions"
_LEADS: Final = (
    "<task>\n",
    "<user_message>\n",
    "<answer>\n",
    "<feedback>\n",
    _WORKFLOW,
    "[TASK RESUMPTION] ",
    "New instructions for task continuation:\n",
    "New message to respond to with plan_mode_respond tool (be sure to provide your response in the <response>",
    "The user provided the following feedback:\n",
    "The user has provided feedback on the results. Consider their input to continue the task, and then attempt",
    "You seem to be having trouble proceeding. The user has provided the following feedback to help guide you:\n",
)
"""Beginnings of a part that has the user's words in a frame."""
_SAID_ON_ACT: Final = ("The user denied this operation", "The user approved this operation and ")
"""Beginnings of a result in which the user answers the question whether a tool may run."""
_STILL_RUNNING: Final = "Command is still running in "
_SAID_AT_END: Final = (
    ("\nThe user provided the following feedback:\n<feedback>\n", "\n</feedback>"),
    ("\n<user_message>\n", "\n</user_message>"),
)
"""Text before and behind the words of the user at the end of the output of a command that runs on."""
# "Command executed.\nOutput:\n"; "Command executed in terminal  within working directory 'x'. Exit code: 0\nOutput:\n"
_SUCCEEDED = re.compile(
    r"Command executed(?: successfully \(exit code 0\))?\.\nOutput:\n"
    r"|Command executed in terminal [^\n]{0,300}\. Exit code: 0\nOutput:\n"
)
# "Command failed with exit code 1.", "Command executed in terminal … Exit code: 2"
_EXITED = re.compile(
    r"Command (?:failed with exit code -?[1-9]|executed in terminal [^\n]{0,300}\s[^\n]{0,100}\s?Exit code: -?[1-9])"
)
_FAILED: Final = ("The tool execution failed with the following error:", "The user denied this operation")
_CUT_SHORT: Final = "[Response interrupted by "
"""Beginning of what the client puts at the end of an answer that was stopped, e.g. "[Response interrupted by user]"."""
_NOTE: Final = 200
"""Most characters of that note."""
_GIVEN: Final = (
    "command|path|absolutePath|content|diff|regex|action|server_name|question|result|response|args|task|mode|mode_slug"
    "|message|context|todos|query|url|prompt|file_path|skill_name|title|requires_approval|recursive|uri|input|archived"
)
"""Parameters with which a call begins; `archived` stands in for those that a compaction took."""
# "<read_file>\n<path>"
_CALL_OPENS = re.compile(rf"^[ \t]*<(?P<tool>{_NAMES})>\s*(?=<(?:{_GIVEN})>|</(?P=tool)>)", re.MULTILINE)
_CALL_ENDS = re.compile(rf"\s*(?:\Z|<(?:{_NAMES})>)")
_PARAMETER = re.compile(r"\s*<(?P<name>[a-zA-Z_]{1,40}\d?)>")
# "<file><path>app.py</path></file>", where a call names several files
_PATH = re.compile(r"<path>(?P<path>[^<]{1,1000})</path>")
_LONG: Final = frozenset({"content", "diff", "arguments", "args", "result", "response"})
"""Parameters that may hold their own closing tag: they end at the last one."""


def is_cline(message: Mapping[str, JsonValue]) -> bool:
    """Return True for a message that a client of this family made, as its frames tell."""
    content, role = message.get("content"), message.get("role")
    if not message.keys().isdisjoint(("tool_calls", "function_call", "toolCalls")):
        return False
    parts = content if isinstance(content, list) else [content]
    if role == "assistant":
        return any(list(_calls(_text(part))) for part in parts)
    if role != "user":
        return False
    texts = [_text(part) for part in parts]
    if isinstance(content, str):
        return len(_apart(content)) > 1
    if any(_ENVIRONMENT.fullmatch(text) for text in texts):
        return True
    heads = [found["tool"] for text in texts if (found := _RESULT.match(text) or _NOT_DONE.match(text))]
    return bool({*heads} & _TOOLS) or any(_INPUT.match(text) for text in texts)


def cline_parts(message: Mapping[str, JsonValue]) -> list[list[Part]]:
    """Return, for each part of a message's content that is not null, the parts of Anthropic's that it is."""
    content = message.get("content")
    given = [part for part in content if part is not None] if isinstance(content, list) else [content]
    if message.get("role") == "assistant":
        return [_agents(part) for part in given]
    if isinstance(content, str):
        said: list[JsonValue] = [{"type": "text", "text": text} for text in _apart(content)]
        return [[made for parts in _users(said) for made in parts]]
    return _users(given)


def cline_written(parts: Sequence[Part], role: str) -> list[Part]:
    """Return parts of Anthropic's as these clients write them in a role, read again as what they are."""
    is_framed = any(_RESULT.match(text_of(part, _HEAD)) for part in parts)
    return [one for part in parts for one in _written(part, is_framed=is_framed and role == "user")]


def _written(part: Part, *, is_framed: bool) -> list[Part]:
    kept = {name: value for name, value in part.items() if not name.startswith("_")}
    head = text_of(part, _HEAD)
    if part["type"] == "tool_result" and head:
        content = part.get("content")
        images = [one for one in content if _is_image(one)] if isinstance(content, list) else []
        text = "\n".join(each for each in (head.rstrip("\n"), _plain(content)) if each)
        if part.get("tool_use_id"):
            return [{**kept, "content": [{"type": "text", "text": text}, *images] if images else text}]
        return [{"type": "text", "text": text}, *[dict(one) for one in images if isinstance(one, dict)]]
    if part["type"] == "tool_use" and head:
        given = part["input"]
        inside = "".join(f"<{key}>{value}</{key}>\n" for key, value in given.items()) if isinstance(given, dict) else ""
        return [{"type": "text", "text": f"<{head}>\n{inside}</{head}>"}]
    if is_framed and part["type"] == "text" and not replaced_by(text_of(part, "text")):
        return [{"type": "text", "text": f"<feedback>\n{part['text']}\n</feedback>"}]
    return [kept]


def _is_image(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") == "image"


def _plain(content: JsonValue) -> str:
    """Return the texts of a result."""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text for part in parts if (text := _text(part)))


def _apart(content: str) -> list[str]:
    """Return what a message of one text says, and behind it the client's details, where it has these."""
    start = content.rfind("\n<environment_details>\n")
    is_cut = start >= 0 and content.rstrip().endswith("</environment_details>")
    return [content[:start], content[start + 1 :]] if is_cut else [content]


def _text(part: JsonValue) -> str:
    """Return the text of a part, or of a result that has its frame inside; "" for any other."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    content = part.get("content") if part.get("type") == "tool_result" else part.get("text")
    return content if isinstance(content, str) else ""


def _users(given: Sequence[JsonValue]) -> list[list[Part]]:
    """Return what the parts of a message in the user's role are: results, the user's words, or the client's own."""
    made = list[list[Part]]()
    is_result = any(_RESULT.match(_text(part)) for part in given)
    head = tool = ""
    bare = -1
    for place, part in enumerate(given):
        text = _text(part)
        if not isinstance(part, dict):
            made.append([])
        elif not text:
            made.append([] if _has_taken(made, part) else [part])
        elif found := _RESULT.match(text):
            head, tool, body = found[0], found["tool"], text[found.end() :].removeprefix("\n")
            about: Part = part if part.get("type") == "tool_result" else {}
            bare = place if not body.strip() and not about else -1
            made.append(_result(tool, head, body, about))
        elif bare >= 0 and not _is_clients(text) and not _NOT_DONE.match(text):
            # Its body is a part by itself: the two are one result, at the place of the second.
            made[bare] = []
            made.append(_result(tool, head, text, {}))
            bare = -1
        else:
            made.append(_beside(part, text, is_result=is_result))
    return made if any(made) else [[part] for part in given if isinstance(part, dict)]


def _has_taken(made: Sequence[Sequence[Part]], part: Part) -> bool:
    """Return True where an image is of the result before it, which takes it; one behind the user's words is theirs."""
    last = next((parts[-1] for parts in reversed(made) if parts), None)
    if part.get("type") != "image" or last is None or last["type"] != "tool_result":
        return False
    content = last["content"]
    before: list[JsonValue] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    last["content"] = [*before, part]
    return True


def _beside(part: Part, text: str, *, is_result: bool) -> list[Part]:
    """Return what a part is that is neither a result nor its body."""
    if found := _NOT_DONE.match(text):
        return [_answer(found["tool"], "", text, is_error=False)]
    if part.get("type") == "tool_result" or replaced_by(text):
        return [part]
    if said := _INPUT.match(text):
        return [{"type": "text", "text": said["words"]}]
    if (words := _words(text)) is not None:
        return [_word(words)] if words else []
    if _is_clients(text):
        return []
    is_others = is_result or text.startswith("Files attached by the user:\n\n<file_content path=")
    return [{"type": "document", "source": {"type": "text", "data": text}}] if is_others else [part]


def _is_clients(text: str) -> bool:
    """Return True for a part that only the client wrote."""
    return not heard(text).words.strip()


def _word(text: str) -> Part:
    return {"type": "text", "text": text}


def _words(text: str) -> str | None:
    """Return the user's words in a part that begins as these clients begin it; None for any other part."""
    said = text.lstrip()
    if not said.startswith(_LEADS):
        return None
    if said.startswith(_WORKFLOW):  # What a workflow tells the agent may itself have such tags.
        said = said.partition("</explicit_instructions>")[2]
    before, words, _ = _framed(said)
    return None if before == said else words


def _framed(text: str) -> tuple[str, str, str]:
    """Return the text before the first frame of the user, the words in it, and the text behind it."""
    if (opening := _FRAME_OPENS.search(text)) is None:
        return text, "", ""
    end = text.find(f"\n</{opening['tag']}>", opening.end() - 1)
    if end < 0:
        return text, "", ""
    behind = text[end + len(opening["tag"]) + 4 :]
    return text[: opening.start()], text[opening.end() : end].strip(), behind


def _result(tool: str, head: str, body: str, about: Part) -> list[Part]:
    """Return a result, and the user's words that the client put into it; `about` is the part that it was, if any."""
    words, output = "", body
    if tool in _ASKING or body.startswith(_SAID_ON_ACT):
        before, words, behind = _framed(body)
        is_lead = before.startswith((*_LEADS, *_SAID_ON_ACT[1:]))
        output = "\n".join(each.strip() for each in ("" if is_lead else before, behind) if each.strip())
    elif body.startswith(_STILL_RUNNING):
        words, output = _said_at_end(body)
    if (begins := _SUCCEEDED.match(output)) and output[begins.end() :].strip():
        head, output = f"{head}\n{begins[0]}", output[begins.end() :]
    is_error = bool(_EXITED.match(body)) or body.startswith(_FAILED)
    made = _answer(tool, head, output, is_error=is_error)
    return [{**about, **made}, *([_word(words)] if words else [])]


def _said_at_end(body: str) -> tuple[str, str]:
    """Return the user's words at the end of a command's output, "" for none, and the output without them."""
    for begin, end in _SAID_AT_END:
        start = body.rfind(begin)
        if start >= 0 and body.rstrip().endswith(end):
            return body[start + len(begin) : body.rstrip().rfind(end)].strip(), body[:start].rstrip()
    return "", body


def _answer(tool: str, head: str, text: str, *, is_error: bool) -> Part:
    return {"type": "tool_result", "name": tool, "content": text, _HEAD: head, "is_error": is_error}


def _agents(part: JsonValue) -> list[Part]:
    """Return what a part of the agent's says, and the calls in it, without those that its client cut short."""
    if isinstance(part, str):
        part = {"type": "text", "text": part}
    if not isinstance(part, dict):
        return []
    text = _text(part)
    calls = list(_calls(text)) if part.get("type", "text") == "text" else []
    if not calls:
        return [part]
    place, made = 0, list[Part]()
    for start, end, call in calls:
        if said := text[place:start].strip():
            made.append({"type": "text", "text": said})
        made += [call] if call else []
        place = end
    return made


def _calls(text: str) -> Iterator[tuple[int, int, Part]]:
    """Yield the calls that end a text, with their places; an empty one for a call that was cut short."""
    note = text.rfind(_CUT_SHORT, max(0, len(text) - _NOTE))
    cut = note >= 0 and text.rstrip().endswith("]")
    end = note if cut else len(text)
    found = list[tuple[int, int, Part]]()
    place = 0
    while opening := _CALL_OPENS.search(text, place, end):
        tool, close = opening["tool"], _close(text, opening, end)
        if close < 0:
            found.append((opening.start(), end, {}))
            place = end
            break
        place = close + len(tool) + 3
        call: Part = {"type": "tool_use", "name": tool, "input": _parameters(text[opening.end() : close])}
        found.append((opening.start(), place, {**call, _HEAD: tool}))
    if found and (cut or not text[place:end].strip()):
        yield from found


def _close(text: str, opening: re.Match[str], end: int) -> int:
    """Return where a call closes: at the first closing tag that the text, or another call, follows; -1 for none."""
    tag = f"</{opening['tool']}>"
    close = first = text.find(tag, opening.end(), end)
    while close >= 0:
        if _CALL_ENDS.match(text, close + len(tag), end):
            return close
        close = text.find(tag, close + 1, end)
    return first


def _parameters(inside: str) -> dict[str, JsonValue]:
    """Return the parameters of a call, each as text."""
    given: dict[str, JsonValue] = {}
    place = 0
    while opening := _PARAMETER.match(inside, place):
        name = opening["name"]
        tag = f"</{name}>"
        end = inside.rfind(tag, opening.end()) if name in _LONG else inside.find(tag, opening.end())
        end, place = (end, end + len(tag)) if end >= 0 else (len(inside), len(inside))
        value = inside[opening.end() : end]
        given[name] = value.removeprefix("\n").removesuffix("\n") if name in _LONG else value.strip()
    first = _PATH.search(text_of(given, "args"))
    return {"path": first["path"].strip(), **given} if first and "path" not in given else given

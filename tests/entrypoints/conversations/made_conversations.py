"""Conversations with tools, as hypothesis makes them, in the shapes of both interfaces."""

import json
from typing import Any

from hypothesis import strategies as st

Messages = list[dict[str, Any]]
_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
_WORDS = st.sampled_from(
    ["ok", "Rename the exports.", "Why is the total wrong by a cent?", "Never touch the database. " * 5]
)
_OUTPUT = st.sampled_from(["", "done", "3 passed in 0.12s", "line of a log 4711\n" * 60, "error: no such file\n" * 40])


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, list[str], bool]]:
    """The assistant's steps of one turn: its words, the outputs of its calls, and whether it thought."""
    count = draw(st.integers(0, 3))
    return [
        (draw(_WORDS | st.just("")), draw(st.lists(_OUTPUT, min_size=1, max_size=3)), draw(st.booleans()))
        for _ in range(count)
    ]


TURNS = st.lists(st.tuples(_WORDS, st.booleans(), steps(), _WORDS), min_size=3, max_size=14)
"""Turns: the user's words, whether they hold an image, the steps, and the last words."""


def anthropic(turns: Any, first: int = 0) -> Messages:
    messages: Messages = []
    calls = 0
    for place, (asked, has_image, made, said) in enumerate(turns, start=first):
        content = [{"type": "text", "text": f"{place}: {asked}"}, *([_IMAGE] if has_image else [])]
        messages.append({"role": "user", "content": content if has_image else f"{place}: {asked}"})
        for words, outputs, thought in made:
            parts: Messages = [_thinking(place)] if thought else []
            parts += [{"type": "text", "text": words}] if words else []
            names = [f"c{place}_{calls + number}" for number in range(len(outputs))]
            calls += len(outputs)
            parts += [{"type": "tool_use", "id": name, "name": "bash", "input": {"command": name}} for name in names]
            messages.append({"role": "assistant", "content": parts})
            results = [
                {"type": "tool_result", "tool_use_id": name, "content": output}
                for name, output in zip(names, outputs, strict=True)
            ]
            messages.append({"role": "user", "content": results})
        messages.append({"role": "assistant", "content": [_thinking(place), {"type": "text", "text": said}]})
    return messages


def openai(turns: Any, first: int = 0) -> Messages:
    messages: Messages = [] if first else [{"role": "system", "content": "You are a careful engineer."}]
    calls = 0
    for place, (asked, has_image, made, said) in enumerate(turns, start=first):
        image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}] if has_image else []
        messages.append({"role": "user", "content": [{"type": "text", "text": f"{place}: {asked}"}, *image]})
        for words, outputs, _ in made:
            names = [f"c{place}_{calls + number}" for number in range(len(outputs))]
            calls += len(outputs)
            made_calls = [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": "bash", "arguments": json.dumps({"command": name})},
                }
                for name in names
            ]
            messages.append({"role": "assistant", "content": words or None, "tool_calls": made_calls})
            messages += [
                {"role": "tool", "tool_call_id": name, "content": output or " "}
                for name, output in zip(names, outputs, strict=True)
            ]
        messages.append({"role": "assistant", "content": said})
    return messages


def _thinking(place: int) -> dict[str, Any]:
    return {"type": "thinking", "thinking": f"About {place}.", "signature": f"signed {place}"}

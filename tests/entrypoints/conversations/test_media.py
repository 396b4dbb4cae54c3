"""What a client's message holds of images and documents comes back whole, in either interface."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.message_files import attached
from mcp_memory.entrypoints.conversations.media import Interface, listed, parts
from mcp_memory.entrypoints.conversations.messages import read_messages
from mcp_memory.entrypoints.conversations.rendering import rendered
from tests.entrypoints.conversations.message_rules import of_anthropic, of_openai

PIXELS = bytes(range(256)) * 40
DATA = base64.b64encode(PIXELS).decode()
Part = dict[str, Any]

PNG: Part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
PDF: Part = {
    "type": "document",
    "title": "Plan.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
}
URL: Part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}
FILE: Part = {"type": "file", "file": {"filename": "Plan.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}}
INPUT_IMAGE: Part = {"type": "input_image", "image_url": URL["image_url"]["url"]}
INPUT_FILE: Part = {"type": "input_file", **FILE["file"]}


def text(said: str) -> Part:
    return {"type": "text", "text": said}


def messages_of(app: App, interface: Interface, *told: Mapping[str, Any]) -> list[dict[str, Any]]:
    me = app.caller("one")
    app.feed(read_messages(told), me)
    log = app.logs.log(me)
    return rendered(log, interface, app.attachments.of_log(log, me))["messages"]


@pytest.mark.parametrize(
    ("sent", "anthropic", "openai"),
    [
        (PNG, PNG, URL),
        (PDF, PDF, FILE),
        (URL, PNG, URL),
        (FILE, PDF, FILE),
        (INPUT_IMAGE, PNG, URL),
        (INPUT_FILE, PDF, FILE),
    ],
    ids=["image", "document", "image_url", "file", "input_image", "input_file"],
)
def test_a_block_comes_back_whole_in_its_place(app: App, sent: Part, anthropic: Part, openai: Part) -> None:
    """D11.1."""
    user = {"role": "user", "content": [text("Look:"), sent, text("What is it?")]}
    (given,) = messages_of(app, "anthropic", user)
    assert given == {"role": "user", "content": [text("Look:"), anthropic, text("What is it?")]}
    (given,) = messages_of(app, "openai", user)
    assert given == {"role": "user", "content": [text("Look:"), openai, text("What is it?")]}
    assert of_openai([given]) == []


def test_an_image_that_a_tool_returned_comes_back_in_its_result(app: App) -> None:
    told = [
        {"role": "user", "content": "Open it."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "open", "input": {"image": PNG}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [text("Here:"), PNG]}],
        },
    ]
    messages = messages_of(app, "anthropic", *told)
    assert of_anthropic(messages) == []
    assert messages[2]["content"][0]["content"] == [text("Here:"), PNG]
    assert messages[1]["content"][0]["input"] == {"image": PNG}
    *_, result = messages_of(app, "openai", *told)
    assert result["role"] == "tool"
    assert result["content"].startswith("Here:\n[image sha256:")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "not base64!"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}},
        {"type": "image", "source": {"type": "base64", "data": DATA}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_image", "image_url": 7},
        {"type": "image", "source": 7},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "file", "file": 7},
    ],
)
def test_what_holds_no_bytes_is_named_and_never_fetched(part: Part) -> None:
    (record,) = read_messages([{"role": "user", "content": [part]}])
    assert record.text in ("[image]", "[file]")
    assert record.files == ()


def test_an_odd_type_stays_a_mark_and_a_file_without_its_mark_comes_before_the_rest() -> None:
    """No interface takes a drawing; the words of a message may have been cut."""
    drawing, picture = attached("image", "image/svg+xml", PIXELS), attached("image", "image/png", PIXELS)
    said = f"Look: {drawing.mark}"
    assert parts(said, [(drawing, PIXELS), (picture, PIXELS)], "anthropic") == [PNG, text(said)]
    assert parts(said, [(drawing, PIXELS), (picture, PIXELS)], "openai") == [URL, text(said)]


def test_files_are_listed_with_their_bytes() -> None:
    file = attached("image", "image/png", PIXELS)
    assert listed([(file, PIXELS)]) == [
        {"medium": "image", "type": "image/png", "digest": file.digest, "size": 10_240, "name": "", "data": DATA}
    ]

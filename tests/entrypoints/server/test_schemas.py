import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from inline_snapshot import snapshot

from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.entrypoints.server.arguments import slim_schema
from mcp_memory.entrypoints.server.mcp_server import INSTRUCTIONS, build_server

if TYPE_CHECKING:
    from mcp_memory.app import App

MAX_TOKENS = 2_400
"""The contract's bound for all of them together."""


async def test_all_tools_together_cost_few_tokens(app: "App") -> None:
    """S6.1."""
    counter = TiktokenCounter("cl100k_base")
    costs: dict[str, int] = {}
    for tool in await build_server(app).list_tools():
        shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        costs[tool.name] = counter.count(json.dumps(shown, ensure_ascii=False, separators=(",", ":")))
    assert costs == snapshot(
        {
            "remember": 596,
            "recall": 297,
            "assemble_context": 325,
            "push_task": 188,
            "pop_task": 142,
            "compact": 295,
            "revise": 336,
            "forget": 100,
        }
    )
    assert sum(costs.values()) <= MAX_TOKENS


async def test_each_description_says_first_when_to_use_the_tool(app: "App") -> None:
    """S6.1."""
    for tool in await build_server(app).list_tools():
        assert tool.description is not None
        assert tool.description.startswith(("Use when ", "Use as soon as ", "Use to ", "Use on "))


async def test_annotations_tell_what_a_tool_may_do(app: "App") -> None:
    """S6.1."""
    told: dict[str, str] = {}
    for tool in await build_server(app).list_tools():
        hints = tool.annotations
        assert hints is not None
        assert hints.open_world_hint is False
        marks = {
            "read-only": hints.read_only_hint,
            "destructive": hints.destructive_hint,
            "idempotent": hints.idempotent_hint,
        }
        assert None not in marks.values()
        told[tool.name] = ", ".join(mark for mark, holds in marks.items() if holds)
    assert told == snapshot(
        {
            "remember": "",
            "recall": "read-only",
            "assemble_context": "read-only",
            "push_task": "",
            "pop_task": "",
            "compact": "",
            "revise": "",
            "forget": "destructive, idempotent",
        }
    )


async def test_a_schema_holds_what_a_model_needs_and_no_more(app: "App") -> None:
    """S6.1."""
    schemas = {tool.name: tool.input_schema for tool in await build_server(app).list_tools()}
    assert schemas["push_task"] == snapshot(
        {
            "properties": {
                "goal": {"type": "string"},
                "task_id": {"description": "Enter this planned or blocked task instead", "type": "string"},
                "parent_id": {"description": "Where goal or plan goes, if not here", "type": "string"},
                "plan": {"description": "Goals of the steps ahead", "items": {"type": "string"}, "type": "array"},
                "success_criteria": {"type": "string"},
                "inherit": {"description": "Records the task should see", "items": {"type": "string"}, "type": "array"},
                "branch": {"description": "Keep what is stored here out of the trunk until popped", "type": "boolean"},
                "takeover": {"description": "Enter though another is in it", "type": "boolean"},
                "session_id": {"type": "string"},
            },
            "type": "object",
        }
    )
    assert schemas["forget"] == snapshot(
        {
            "properties": {
                "ids": {"items": {"type": "string"}, "type": "array"},
                "mode": {"default": "retire", "enum": ["retire", "erase", "restore"], "type": "string"},
                "version": {"description": "As recalled; refused if newer", "type": "integer"},
            },
            "required": ["ids"],
            "type": "object",
        }
    )
    text = json.dumps(schemas)
    assert not any(
        word in text for word in ("$ref", "$defs", "title", "anyOf", "null", "additionalProperties", "maxLength")
    )


def faults(schema: Any, at: str) -> Iterator[str]:
    """What some client would refuse, with every request: lists of types, unions, references, values without a type."""
    known = {"type", "description", "properties", "required", "items", "enum", "default", "minimum", "maximum"}
    if not isinstance(schema, dict):
        yield f"{at} is no schema"
        return
    node = cast("dict[str, Any]", schema)
    if node.get("type") not in ("object", "array", "string", "integer", "number", "boolean"):
        yield f"{at} has the type {node.get('type')!r}"
    yield from (f"{at} has {name}" for name in node.keys() - known)
    if "enum" in node and not (
        node["type"] == "string" and all(isinstance(each, str) and each for each in node["enum"])
    ):
        yield f"{at} lists other things than words"
    if not set(node.get("required", ())) <= node.get("properties", {}).keys():
        yield f"{at} requires what it has not"
    if node.get("type") == "array" or "items" in node:
        yield from faults(node.get("items"), f"{at}[]")
    for name, part in node.get("properties", {}).items():
        yield from faults(part, f"{at}.{name}")


async def test_every_client_takes_the_schemas(app: "App") -> None:
    """P3.2: Gemini refuses all requests where one schema has a list of types, OpenAI where an array has no items."""
    found: list[str] = []
    for tool in await build_server(app).list_tools():
        assert tool.input_schema["type"] == "object"
        schemas = [tool.input_schema, *([tool.output_schema] if tool.output_schema else [])]
        found += [fault for schema in schemas for fault in faults(schema, tool.name)]
    assert found == []
    assert [*faults({"type": ["string", "object"]}, "x")] == ["x has the type ['string', 'object']"]
    assert [*faults({"type": "array"}, "x")] == ["x[] is no schema"]
    assert len([*faults({"type": "object", "properties": {"a": {"anyOf": []}}}, "x")]) == 2


def test_a_field_may_bear_the_name_of_a_keyword() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"title": "Title", "type": "string"}, "default": {"default": 3}},
    }
    assert slim_schema(schema) == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "default": {"default": 3}},
    }


def test_the_instructions_fit_where_clients_cut_them() -> None:
    assert len(INSTRUCTIONS.encode()) < 2048

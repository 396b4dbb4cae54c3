"""The compact tool as clients use it, in both eras of the protocol: what it takes, refuses, answers and tells."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest
from mcp import Client
from mcp.client.session import SamplingFnT
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, CreateMessageResult, ErrorData, Implementation, TextContent, TextResourceContents

from mcp_memory.app import App
from mcp_memory.entrypoints.server.mcp_server import build_server
from tests.e2e.conversations import Message, edits, flat, said, text_of

Answer: TypeAlias = dict[str, Any]
Conversation: TypeAlias = tuple[Message, ...]
LEGACY, MODERN = "legacy", "auto"
CLAUDE = Implementation(name="claude-code", version="2.1")
FACTOR = 1.53
"""How many of Claude's tokens one counted token stands for."""
SESSION = "s-work"
GOOD = (
    "## Goal\n- The totals are right\n## Key facts\n- none\n## Current state\n- all edited\n"
    "## Next steps\n- none\n## Decisions\n- amounts are kept in cents\n## Dead ends\n- none"
)
RULE = said("user", "Never touch the billing cluster.")
"""Is missing in GOOD."""


ANTHROPIC: Conversation = (
    {"role": "user", "content": [{"type": "text", "text": "Which port?"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ss"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "8123"}]},
    {"role": "assistant", "content": "It is 8123."},
)
CHAT: Conversation = (
    {"role": "user", "content": "Which port?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ss"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "8123"},
    {"role": "assistant", "content": "It is 8123."},
)
RESPONSES: Conversation = (
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which port?"}]},
    {"type": "reasoning", "id": "rs1", "summary": []},
    {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "bash", "arguments": '{"command":"ss"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "8123"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is 8123."}]},
)


@pytest.fixture
def app(open_memory: Callable[..., App]) -> App:
    return open_memory()


in_both_eras = pytest.mark.parametrize("era", [MODERN, LEGACY], indirect=True)
"""For what the protocol itself may change; the rest is asked in one."""


@pytest.fixture
def era(request: pytest.FixtureRequest) -> str:
    """How a client of the SDK connects: by discovery (2026-07-28), or by the handshake (2025-11-25)."""
    return str(getattr(request, "param", MODERN))


@pytest.fixture
def server(app: App) -> MCPServer:
    return build_server(app)


@pytest.fixture
async def client(server: MCPServer, era: str) -> AsyncIterator[Client]:
    async with Client(server, mode=era) as connected:
        yield connected


async def compact(client: Client, messages: list[Message] | None = None, **arguments: Any) -> Answer:
    given = {"session_id": SESSION, **({"messages": messages} if messages else {}), **arguments}
    return answered(await client.call_tool("compact", given))


def answered(result: CallToolResult) -> Answer:
    """The account for programs; it is the same for models, but for recall's lines, and where nothing was to be done."""
    assert not result.is_error, result.content
    if result.structured_content is None:
        assert result.meta is not None
        return result.meta["compact"]
    if text_in(result).startswith("{"):
        assert json.loads(text_in(result)) == result.structured_content
    return result.structured_content


def text_in(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def refusal(client: Client, **arguments: Any) -> str:
    """What a wrong call is answered, in a sentence or two; the next call is served."""
    result = await client.call_tool("compact", {"session_id": SESSION, **arguments})
    assert result.is_error
    assert len(text_in(result)) <= 300
    assert not (await client.call_tool("recall", {"ids": ["r0none"]})).is_error
    return text_in(result)


async def session_page(client: Client, address: str = f"memory://session/{SESSION}") -> Answer:
    [content] = (await client.read_resource(address)).contents
    assert isinstance(content, TextResourceContents)
    return json.loads(content.text)


async def opened(client: Client, record_id: str) -> list[Answer]:
    result = await client.call_tool(
        "recall", {"ids": [record_id], "detail": "micro", "limit": 100, "max_tokens": 100_000}
    )
    return answered(result)["results"]


def passes_that_ran(answer: Answer) -> list[str]:
    return [each["name"] for each in answer["passes"] if each["ran"]]


class TestWhatIsFed:
    @pytest.mark.parametrize("messages", [ANTHROPIC, CHAT, RESPONSES], ids=["anthropic", "chat", "responses"])
    async def test_a_conversation_is_logged_as_the_clients_interface_has_it(
        self, client: Client, messages: Conversation
    ) -> None:
        answer = await compact(client, list(messages))
        assert answer["fed"] == {"stored": 4, "known": 0, "redacted": 0}
        assert answer["session_id"] == SESSION
        assert answer["log"]["entries"] == 4
        page = await session_page(client)
        assert [each["kind"] for each in page["records"]] == ["message", "tool_call", "tool_result", "message"]
        assert [each["text"] for each in page["records"]] == ["Which port?", '{"command":"ss"}', "8123", "It is 8123."]

    @pytest.mark.parametrize("messages", [ANTHROPIC, CHAT, RESPONSES], ids=["anthropic", "chat", "responses"])
    async def test_what_is_told_again_is_known(self, client: Client, messages: Conversation) -> None:
        await compact(client, list(messages))
        answer = await compact(client, [*messages, said("user", "Thanks.")])
        assert answer["fed"] == {"stored": 1, "known": 4, "redacted": 0}

    async def test_messages_may_come_as_a_string_of_json(self, client: Client) -> None:
        answer = await compact(client, messages=json.dumps(ANTHROPIC))  # pyrefly: ignore[bad-argument-type] - what the test is about
        assert answer["fed"]["stored"] == 4

    async def test_secrets_are_cut_out_and_counted(self, client: Client) -> None:
        """R4."""
        answer = await compact(client, [said("user", "The key is AKIA" + "Q3EGHRTUVWXYZ2A7.")])
        assert answer["fed"] == {"stored": 1, "known": 0, "redacted": 1}

    async def test_what_a_terminal_wrote_refuses_no_conversation(self, client: Client) -> None:
        """D8.2: cleaned and counted, also inside arguments; an output of nothing else was an answer all the same."""
        messages: list[Message] = [
            {"role": "assistant", "tool_calls": [{"id": "c1", "custom": {"name": "sh", "input": {"a": "\x1b[1mls"}}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "\x1b[31mFAILED\x1b[0m\r\n"},
            {"role": "tool", "tool_call_id": "c1", "content": "\x1b[2J"},
            said("user", "The key is AK\x1b[0mIA" + "Q3EGHRTUVWXYZ2A7."),
        ]
        answer = await compact(client, messages)
        assert answer["fed"] == {"stored": 4, "known": 0, "redacted": 1, "cleaned": 5}
        texts = [each["text"] for each in (await session_page(client))["records"]]
        assert texts[:3] == ['{"a":"ls"}', "FAILED", "(no output)"]

    async def test_a_transcript_is_read_and_its_other_lines_are_counted(self, client: Client, tmp_path: Path) -> None:
        lines = [
            {"type": "summary", "summary": "Ports"},
            {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "Which port?"}},
            {"type": "assistant", "uuid": "u2", "message": {"role": "assistant", "content": "It is 8123."}},
            {
                "type": "assistant",
                "uuid": "u3",
                "isSidechain": True,
                "message": {"role": "assistant", "content": "Hm."},
            },
        ]
        path = tmp_path / "transcript.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in lines) + "\nno json\n", "utf-8")
        answer = await compact(client, transcript=str(path))
        kinds = answer["fed"].pop("skipped_kinds")
        assert answer["fed"] == {"stored": 2, "known": 0, "redacted": 0, "skipped": 3}
        assert sum(kinds.values()) == 3
        assert kinds["subagent"] == 1
        again = await compact(client, transcript=str(path))
        assert (again["fed"]["stored"], again["fed"]["known"]) == (0, 2)


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"passes": ["mask", "magic"]},
        "There is no pass of one of those names; the passes are: mask, tool_calls, ",
    ),
    ({"passes": "magic"}, "There is no pass of one of those names; "),
    ({"preset": "fast"}, "There is no preset of that name; the presets are: default, aggressive, "),
    ({"window": 0}, "`window` must be at least 1000."),
    ({"window": "big"}, "`window` must be a whole number."),
    ({"max_tokens": 0}, "`max_tokens` must be at least 500."),
    (
        {"summarizer": "gpt"},
        "`summarizer` must be one of 'extractive', 'model', 'caller' or 'sampling', not 'gpt'.",
    ),
    ({"messages": "hello"}, "`messages` must be a list."),
    ({"messages": ["hello"]}, "`messages[0]` must be an object."),
    ({"messages": [{"text": "hello"}]}, "messages[0] has no role. "),
    ({"messages": [{"role": "oracle", "content": "hello"}]}, "messages[0] has an unknown role. "),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0] has a content that is neither "),
    ({"messages": '[{"role": "user", "content": 5}]'}, "messages[0] has a content that is neither "),
    ({"summary": GOOD}, "summary and span go together"),
    ({"span": "r1-r2-abc"}, "summary and span go together"),
    ({"summary": GOOD, "span": "nonsense"}, "The log changed since, or span is none that was asked for"),
    ({"summary": GOOD, "span": "r-1-2-3-4--"}, "The log changed since, or span is none that was asked for"),
    ({"summarizer": "model"}, "No model is configured to summarise; "),
    ({"undo": True}, ""),
    ({"undo": True, "summary": GOOD, "span": "r1-r2-abc"}, "Give either undo or summary, not both."),
    ({"transcript": "a", "messages": [{"role": "user", "content": "b"}]}, "Give either messages or transcript"),
    ({"model": "gpt"}, "There is no field `model`. Known: session_id, messages, transcript, window,"),
)
"""Arguments, and how what they are answered begins."""


@in_both_eras
class TestWhatIsRefused:
    """S3.1."""

    async def test_a_wrong_argument_is_answered_with_what_to_do(self, client: Client) -> None:
        for arguments, says in WRONG:
            assert (await refusal(client, **arguments)).startswith(says), arguments

    @pytest.mark.parametrize("name", ["none.jsonl", "", "x" * 300, "~no-such-user-here/a.jsonl", "text.jsonl"])
    async def test_a_transcript_that_is_none(self, client: Client, tmp_path: Path, name: str) -> None:
        (tmp_path / "text.jsonl").write_text("Just words.\n", "utf-8")
        path = name if name.startswith("~") else str(tmp_path / name)
        assert "Give another path, or the conversation itself as `messages`." in await refusal(client, transcript=path)

    async def test_what_is_refused_for_its_other_arguments_is_not_logged(self, client: Client) -> None:
        await refusal(client, messages=[said("user", "Hello.")], summary=GOOD)
        with pytest.raises(MCPError, match="No session"):
            await session_page(client)


class TestWhatIsAnswered:
    @in_both_eras
    async def test_the_account_says_what_stands_where_and_why(self, client: Client) -> None:
        """D1.3, D3.1, E1.1."""
        messages = flat(edits(60))
        answer = await compact(client, messages, window=5_000)
        log = answer["log"]
        assert log["window"] == 5_000
        assert log["share"] == pytest.approx(log["tokens"] / 5_000, abs=0.001)
        assert log["level"] in ("calm", "notice")
        assert answer["preset"] == "default"
        assert answer["summarized_by"] == "extractive"
        assert answer["compaction"] == answer["compactions"] == 1
        assert passes_that_ran(answer)
        assert all(each["reason"] for each in answer["passes"])
        assert answer["saved"] == sum(each["before"] - each["after"] for each in answer["passes"] if each["ran"])

    async def test_replacements_tell_what_they_stand_for_and_leave_no_call_alone(self, client: Client) -> None:
        """D3.1, E2.5, T5.1, E8.1."""
        messages = flat(edits(60))
        answer = await compact(client, messages, window=10_000, max_tokens=100_000)
        assert "replacements_omitted" not in answer
        page = await session_page(client)
        assert [each["id"] for each in answer["replacements"]] == [each["id"] for each in page["summaries"]]
        for each in answer["replacements"]:
            covers = await opened(client, each["id"])
            ids = [one["id"] for one in covers]
            assert (ids[0], ids[-1], len(ids)) == (each["first"], each["last"], each["compacted_count"])
            assert 0 < each["summary_token_count"] < each["original_token_count"]
            assert each["level"] >= 1 or each["form"] in ("mask", "external")
            assert each["role"] in ("user", "assistant", "tool")
        told = len(messages) - sum(each["compacted_count"] for each in answer["replacements"])
        assert answer["log"]["entries"] == told + len(answer["replacements"])
        originals = sum(each["original_token_count"] - each["summary_token_count"] for each in answer["replacements"])
        assert answer["saved"] == originals

    async def test_from_the_second_compaction_on_the_count_is_told(self, client: Client) -> None:
        """D1.2."""
        turns = edits(60)
        first = await compact(client, flat(turns[:30]), window=5_000, force=True)
        second = await compact(client, flat(turns[30:]), window=5_000, force=True)
        assert not any("has been compacted" in each for each in first.get("warnings", []))
        assert second["compactions"] == 2
        assert any("has been compacted 2 times" in each for each in second["warnings"])

    async def test_what_the_log_is_full_of_changes_how_it_is_compacted_and_is_told(self, client: Client) -> None:
        """E8.2."""
        answer = await compact(client, [said("user", f"Mind the {number}th case.") for number in range(30)])
        assert answer["adapted"].startswith("the user's words are 100%")

    async def test_a_log_with_nothing_to_do_is_answered_shortly(self, client: Client) -> None:
        answer = await compact(client, [said("user", "Hello.")])
        assert answer["saved"] == 0
        assert passes_that_ran(answer) == []
        again = await client.call_tool("compact", {"session_id": SESSION})
        assert text_in(again) == "Nothing was to be done: the log takes 0% of its window."
        assert not {"replacements", "compaction", "summarize", "extracted", "warnings"} & set(answer)

    async def test_undo_says_what_it_took_back(self, client: Client) -> None:
        """D3.2."""
        before = (await compact(client, flat(edits(60))))["log"]
        await compact(client, window=10_000)
        undone = await compact(client, undo=True)
        assert (undone["undone"], undone["compactions"]) == (1, 0)
        assert undone["log"] == before
        assert undone["saved"] < 0
        assert (await session_page(client))["summaries"] == []

    @in_both_eras
    async def test_tokens_are_the_clients_own(self, server: MCPServer, era: str) -> None:
        """S6.1: the same log, for a client whose model takes half as many tokens again."""
        messages, accounts = flat(edits(60)), list[Answer]()
        for info, window in ((None, 10_000), (CLAUDE, int(10_000 * FACTOR))):
            async with Client(server, mode=era, client_info=info) as client:
                accounts.append(await compact(client, messages, window=window, session_id=f"s-{window}"))
        plain, theirs = accounts
        assert theirs["log"]["window"] == pytest.approx(15_300, abs=2)
        assert theirs["log"]["share"] == pytest.approx(plain["log"]["share"], abs=0.005)
        # Ids differ, and with them the tokens of the blocks that name them.
        assert theirs["saved"] == pytest.approx(plain["saved"] * FACTOR, rel=0.02)
        for one, other in zip(plain["passes"], theirs["passes"], strict=True):
            assert (one["name"], one["ran"]) == (other["name"], other["ran"])
            if one["ran"]:
                assert other["before"] == pytest.approx(one["before"] * FACTOR, rel=0.02)
        for one, other in zip(plain["replacements"], theirs["replacements"], strict=False):
            for name in ("original_token_count", "summary_token_count"):
                assert other[name] == pytest.approx(one[name] * FACTOR, rel=0.1, abs=8)

    async def test_a_window_of_the_clients_is_full_when_its_own_tokens_fill_it(self, server: MCPServer) -> None:
        """S6.1, D1.1."""
        messages = flat(edits(30))
        async with Client(server, client_info=CLAUDE) as client:
            tokens = (await compact(client, messages))["log"]["tokens"]
            calm = await compact(client, passes=["threshold"], window=int(tokens / 0.78))
            full = await compact(client, passes=["threshold"], window=int(tokens / 0.82))
        assert "threshold" not in passes_that_ran(calm)
        assert "threshold" in passes_that_ran(full)


class TestItsBudget:
    @pytest.mark.parametrize("max_tokens", [500, 2_000, 8_000])
    @pytest.mark.parametrize("info", [None, CLAUDE])
    async def test_the_whole_answer_keeps_max_tokens(
        self, app: App, server: MCPServer, max_tokens: int, info: Implementation | None
    ) -> None:
        """B11.1, T5.1: what is left out is counted, and all of it readable where the answer says."""
        async with Client(server, client_info=info) as client:
            arguments = {"session_id": SESSION, "messages": flat(edits(80)), "window": 12_000, "passes": ["tool_calls"]}
            result = await client.call_tool("compact", arguments | {"max_tokens": max_tokens})
            answer = answered(result)
            assert app.counter.count(text_in(result)) * (FACTOR if info else 1) <= max_tokens
            shown, left_out = answer.get("replacements", []), answer.get("replacements_omitted", 0)
            page = await session_page(client, answer["all_replacements"]) if left_out else await session_page(client)
        assert len(page["summaries"]) == len(shown) + left_out
        texts = {each["id"]: each["text"] for each in page["summaries"]}
        assert all(texts[each["id"]] == each["text"] for each in shown)
        assert left_out or max_tokens > 2_000

    @pytest.mark.parametrize("session_id", ["two words", "a/b", "ä?#%"])
    async def test_where_all_replacements_are_is_an_address_for_any_session(
        self, client: Client, session_id: str
    ) -> None:
        """T5.1."""
        answer = await compact(client, flat(edits(60)), window=5_000, session_id=session_id, max_tokens=500)
        assert answer["replacements_omitted"]
        page = await session_page(client, answer["all_replacements"])
        assert page["session_id"] == session_id

    @pytest.mark.parametrize("max_tokens", [2_000, 4_000, 8_000])
    async def test_prompt_and_span_keep_it_too(self, app: App, server: MCPServer, max_tokens: int) -> None:
        """D7.1: of a long span a part is shown, and the prompt is whole."""
        async with Client(server, client_info=CLAUDE) as client:
            arguments = {"messages": flat(edits(200)), "window": 40_000, "summarizer": "caller", "force": True}
            result = await client.call_tool("compact", arguments | {"session_id": SESSION, "max_tokens": max_tokens})
        asked = answered(result)["summarize"]
        assert app.counter.count(text_in(result)) * FACTOR <= max_tokens
        assert asked["prompt"].endswith("nothing before or behind the sections.")
        assert asked["text"].endswith("recall opens the rest]")
        assert len(asked["text"]) > max_tokens // 4

    async def test_a_prompt_that_does_not_fit_is_asked_for_again_with_what_it_takes(
        self, app: App, client: Client
    ) -> None:
        """D7.1, S3.1."""
        messages = flat(edits(200))
        first = await compact(client, messages, window=20_000, summarizer="caller", force=True, max_tokens=500)
        assert "prompt" not in first["summarize"]
        [enough] = [int(word) for word in first["summarize"]["note"].split() if word.isdigit()]
        second = await compact(client, window=20_000, summarizer="caller", force=True, max_tokens=enough)
        assert second["summarize"]["span"].partition("/")[0] == first["summarize"]["span"].partition("/")[0]
        assert second["summarize"]["prompt"]
        assert second["summarize"]["text"]
        assert app.counter.count(json.dumps(second, ensure_ascii=False, separators=(",", ":"))) <= enough


class TestSummarisedByTheCaller:
    async def test_a_span_is_given_and_its_summary_taken(self, client: Client) -> None:
        """D7.1."""
        messages = [RULE, *flat(edits(60))]
        asked = (await compact(client, messages, window=10_000, summarizer="caller", force=True))["summarize"]
        assert asked["entries"] > 0
        assert text_of(messages[0]) in asked["text"]
        given = {"session_id": SESSION, "window": 10_000, "summary": GOOD, "span": asked["span"]}
        assert "leaves out" in text_in(await client.call_tool("compact", given))
        answer = await compact(client, window=10_000, summary=GOOD, span=asked["span"])
        [made] = answer["replacements"]
        assert made["text"].startswith(f"[CONTEXT SUMMARY {made['id']}]")
        assert "The totals are right" in made["text"]
        assert answer["summarized_by"] == "caller"
        assert passes_that_ran(answer) == ["threshold"]

    async def test_instructions_are_added_and_a_prompt_takes_the_place(self, client: Client) -> None:
        """D6.1."""
        messages = flat(edits(60))
        more = await compact(
            client, messages, window=10_000, summarizer="caller", force=True, instructions="In French."
        )
        assert more["summarize"]["prompt"].startswith("Summarise the part")
        assert more["summarize"]["prompt"].endswith("In French.")
        own = await compact(client, window=10_000, summarizer="caller", force=True, prompt="Write a haiku.")
        assert own["summarize"]["prompt"] == "Write a haiku."

    async def test_a_summary_that_is_not_good_enough_changes_nothing(self, client: Client) -> None:
        """D7.1, S3.1."""
        await compact(client, flat(edits(60)))
        asked = (await compact(client, window=10_000, summarizer="caller", force=True))["summarize"]
        page = await session_page(client)
        result = await client.call_tool(
            "compact", {"session_id": SESSION, "window": 10_000, "summary": "## Goal\n- x", "span": asked["span"]}
        )
        assert result.is_error
        assert text_in(result).startswith('The summary was not taken. The section "Key facts" is missing')
        assert (await session_page(client))["summaries"] == page["summaries"]


class Model:
    """A client's model that writes a summary, and keeps what it was asked."""

    def __init__(self, summary: str = GOOD) -> None:
        self.summary = summary
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: Any) -> CreateMessageResult:
        self.asked.append(params.messages[0].content.text)
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text=self.summary), model="some-model"
        )


async def denied(context: Any, params: Any) -> ErrorData:
    return ErrorData(code=-1, message="User rejected the request")


class TestSummarisedByTheClientsModel:
    ASKED: Mapping[str, Any] = MappingProxyType(
        {"summarizer": "sampling", "passes": ["tool_calls", "threshold"], "force": True, "window": 30_000}
    )

    async def sampled(self, server: MCPServer, era: str, sample: SamplingFnT) -> Answer:
        async with Client(server, mode=era, sampling_callback=sample) as client:
            return await compact(client, [RULE, *flat(edits(60))], max_tokens=100_000, **self.ASKED)

    @in_both_eras
    async def test_its_summary_and_every_other_replacement_reach_the_client(
        self, app: App, server: MCPServer, era: str
    ) -> None:
        """D7.1."""
        model = Model()
        answer = await self.sampled(server, era, model)
        assert len(model.asked) == 1
        assert "<span>" in model.asked[0]
        live = [each.entry for each in app.logs.stand_ins(app.caller(SESSION))]
        assert [each["id"] for each in answer["replacements"]] == [entry.id for entry in live]
        assert {each["form"] for each in answer["replacements"]} > {"summary"}
        assert passes_that_ran(answer)[-1] == "threshold"
        assert "summarize" not in answer
        [summary] = [each for each in answer["replacements"] if each["form"] == "summary"]
        assert "The totals are right" in summary["text"]
        assert answer["summarized_by"] == "client's model"

    @in_both_eras
    async def test_nothing_is_asked_where_nothing_is_to_be_summarised(self, server: MCPServer, era: str) -> None:
        """D7.1, E2.2."""
        model = Model()
        async with Client(server, mode=era, sampling_callback=model) as client:
            answer = await compact(client, flat(edits(4)), summarizer="sampling")
        assert model.asked == []
        assert "threshold" not in passes_that_ran(answer)

    @in_both_eras
    async def test_a_client_that_offers_none_is_told_so_and_asked_for_the_summary_itself(
        self, server: MCPServer, era: str
    ) -> None:
        """D7.1, S3.1: as docs/compaction.md says; the rest of the compaction is answered as ever."""
        messages = flat(edits(60))
        async with Client(server, mode=era) as client:
            answer = await compact(client, messages, window=20_000, force=True, summarizer="sampling")
        assert answer["sampling"].startswith("This client offers no sampling. ")
        assert answer["replacements"]
        assert answer["summarize"]["span"]

    @in_both_eras
    async def test_a_model_that_writes_no_good_summary_leaves_the_rest_and_the_span_to_the_caller(
        self, app: App, server: MCPServer, era: str
    ) -> None:
        """D7.1."""
        answer = await self.sampled(server, era, Model("No idea."))
        assert answer["sampling"].startswith("The summary was not taken. ")
        live = app.logs.stand_ins(app.caller(SESSION))
        assert [each["id"] for each in answer["replacements"]] == [each.entry.id for each in live]
        assert live
        async with Client(server, mode=era) as client:
            given: dict[str, Any] = {"summary": GOOD, "span": answer["summarize"]["span"]}
            await client.call_tool("compact", {"session_id": SESSION, "window": 30_000, **given})  # leaves things out
            taken = await compact(client, window=30_000, **given)
        assert passes_that_ran(taken) == ["threshold"]

    @pytest.mark.parametrize("sample", [Model(" \n"), denied])
    async def test_a_model_that_gives_no_text_does_too_in_the_era_of_the_handshake(
        self, app: App, server: MCPServer, sample: SamplingFnT
    ) -> None:
        """D7.1."""
        answer = await self.sampled(server, LEGACY, sample)
        assert answer["sampling"].endswith("Call again without asking for the client's model.")
        assert len(answer["replacements"]) == len(app.logs.stand_ins(app.caller(SESSION))) > 0
        assert answer["summarize"]["prompt"]

    async def test_a_client_that_denies_in_the_newer_era_finds_what_was_done_on_the_sessions_page(
        self, server: MCPServer
    ) -> None:
        """D7.1: there the client ends the call itself."""
        async with Client(server, mode=MODERN, sampling_callback=denied) as client:
            with pytest.raises(MCPError, match="User rejected"):
                await compact(client, flat(edits(60)), **self.ASKED)
            assert (await session_page(client))["summaries"]
            answer = await compact(client, window=20_000, force=True)
        assert answer["summarized_by"] == "extractive"


@in_both_eras
class TestProgress:
    async def told(self, client: Client, **arguments: Any) -> list[tuple[float, float | None, str]]:
        steps: list[tuple[float, float | None, str]] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            steps.append((progress, total, message or ""))

        given = {"session_id": SESSION, "messages": flat(edits(60)), **arguments}
        answered(await client.call_tool("compact", given, progress_callback=note))
        return steps

    async def test_every_pass_is_told_at_its_start_and_its_end(self, client: Client) -> None:
        """E5.1: by name, with tokens, what was saved, and the time; what is done grows with each."""
        steps = await self.told(client, window=10_000)
        done = [each[0] for each in steps]
        assert done == sorted(set(done))
        assert {each[1] for each in steps} == {6}
        assert done[-1] == 6
        names = [each[2].partition(":")[0] for each in steps]
        assert names[::2] == names[1::2] == ["mask", "tool_calls", "dialogue", "threshold", "goal_batch", "ceiling"]
        assert all(": start, " in each[2] and "of 10,000 tokens" in each[2] for each in steps[::2])
        completed = [each[2] for each in steps[1::2] if ": complete, " in each[2]]
        assert completed
        assert all("tokens saved" in each and " ms (2026-11-20T12:00:00" in each for each in completed)

    async def test_tokens_in_it_are_the_clients(self, server: MCPServer, era: str) -> None:
        """E5.1, S6.1."""
        async with Client(server, mode=era, client_info=CLAUDE) as client:
            steps = await self.told(client, window=15_300)
        assert all("of 15,300 tokens" in each[2] for each in steps[::2])

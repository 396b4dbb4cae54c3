"""What episodes and messages state becomes records of its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.domain.model.records import Kind, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.session_log import ENTRY_KINDS
from mcp_memory.domain.model.tasks import FinalStatus
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.services.memory.extract import Extractor
from mcp_memory.services.memory.forget import ForgetMode
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
SAID = """\
We decided to keep SQLite, since a queue did not help.
The staging server runs on db2. Raising the timeout didn't fix the flaky test. Should we move it?
Never push to main."""
ANSWER = SAID.replace("\n", " ").replace(" Should we move it?", "")
STATED = {
    ANSWER: ("decision", "noted", None),
    "The staging server runs on db2.": ("fact", "noted", None),
    "Raising the timeout didn't fix the flaky test.": ("episode", "noted", "failure"),
    "Never push to main.": ("fact", "noted", None),
}
"""What a user states who says this after a first message, which names the goal."""
GOAL = "Please move the database to the new host."
DEAD_END = "Raising the timeout did not work."
FACT = "The port is 5432."


def everything(app: App) -> list[Record]:
    """In the order it was stored."""
    where = RecordFilter(scopes=app.caller().scopes, include_inactive=True)
    return list(reversed(app.records.list(where, "created", 10_000)))


def extracted(app: App) -> dict[str, Record]:
    return {each.text: each for each in everything(app) if "source" in each.details}


@pytest.fixture
def extracting(app: App, embedder: MiniLMEmbedder) -> Extractor:
    return Extractor(app.records, embedder, TiktokenCounter())


@pytest.fixture
def extract(app: App, extracting: Extractor, clock: "Clock") -> Callable[..., list[str | None]]:
    """What was stored of the statements of these records, in one write; of the whole logs where none is named."""

    def extract_all(*ids: str, embedded: bool = False, meanwhile: Callable[[], object] = lambda: None):
        logs: dict[object, list[Record]] = {}
        for each in everything(app):
            if each.kind in ENTRY_KINDS or each.id in ids:
                logs.setdefault((each.agent, each.session_id, each.kind == "episode"), []).append(each)
        made = [draft for log in logs.values() for draft in extracting.drafts(log, embedded=embedded)]
        drafts = [draft for draft in made if not ids or draft.source.id in ids]
        meanwhile()
        with app.records.write() as transaction:
            return [extracting.store(draft, clock.now, transaction) for draft in drafts]

    return extract_all


Extract = Callable[..., list[str | None]]


@pytest.fixture
def say(app: App, remember: RememberOne, clock: "Clock") -> RememberOne:
    """Store a message a second after the one before; each session begins with its goal."""

    def say_it(text: str, role: str | None = "user", *, caller: Caller | None = None, **given: object) -> Remembered:
        caller = caller or app.caller()
        logged = [each for each in everything(app) if each.kind == "message" and each.agent == caller.agent]
        if all(each.session_id != caller.session_id for each in logged):
            remember(GOAL, caller=caller, kind="message", role="user")
        clock.advance(seconds=1)
        return remember(text, caller=caller, kind="message", role=role, **given)

    return say_it


def test_facts_decisions_and_dead_ends_of_a_message_are_kept_by_themselves(
    app: App, say: RememberOne, extract: Extract, clock: "Clock"
) -> None:
    """D4.1: with whose they are, when it was, and the message they come from."""
    app.tasks.push(PushRequest(goal="move the database"), app.caller("moving"))
    say("Well.", caller=app.caller("moving"))
    message = say(
        SAID, caller=app.caller("moving"), speaker="Ada", visibility="private",
        importance=9.0, pinned=True, tags=("move",), occurred_at=clock.now - 60,
    )  # fmt: skip
    clock.advance(hours=1)
    stored = extract()
    records = extracted(app)
    assert {each.text: (each.kind, each.status, each.outcome) for each in records.values()} == STATED
    assert sorted(each.id for each in records.values()) == sorted(filter(None, stored))
    source = next(each for each in everything(app) if each.id == message.id)
    for each in records.values():
        assert each.details == {"source": message.id}
        assert (each.scope, each.visibility, each.session_id, each.speaker, each.tags) == (
            source.scope, "private", "moving", "Ada", ("move",),
        )  # fmt: skip
        assert each.task_id == source.task_id is not None
        assert (each.occurred_at, each.created_at, each.importance) == (source.occurred_at, clock.now, 1.0)
        assert (each.pinned, each.role, each.tool, each.call_id) == (False, None, None, None)
    found = app.recall(RecallRequest(query="flaky timeout", kinds=("episode",)), app.caller("moving")).results
    assert [each["text"] for each in found] == [
        "Raising the timeout didn't fix the flaky test. → failure (noted, not confirmed)"
    ]


@pytest.mark.parametrize(
    ("role", "text"),
    [("user", FACT), (None, FACT), ("human", FACT), ("assistant", DEAD_END), ("Model", DEAD_END), (None, DEAD_END)],
)
def test_who_said_it_counts(say: RememberOne, extract: Extract, role: str | None, text: str) -> None:
    """D4.1: a message is the user's where nothing else is said."""
    say(text, role)
    assert len(list(filter(None, extract()))) == 1


def test_a_fact_of_the_agent_alone_is_not_taken(say: RememberOne, extract: Extract) -> None:
    """D10.1: facts come from the user; the agent may have guessed."""
    say(FACT, "assistant")
    assert extract() == []


@pytest.mark.parametrize(
    ("kind", "role"),
    [("message", "system"), ("message", "Developer"), ("message", "tool"), ("message", "function"),
     ("tool_call", "assistant"), ("tool_result", None), ("event", "user"), ("summary", "user"), ("fact", None)],
)  # fmt: skip
def test_nothing_is_taken_from_what_nobody_said(
    remember: RememberOne, extract: Extract, kind: Kind, role: str | None
) -> None:
    """D4.1: a tool's output may hold anything; nobody vouches for it."""
    source = remember(f"So it is. {FACT} {DEAD_END}", kind=kind, role=role)
    assert extract(source.id) == []


def test_an_episode_gives_no_dead_ends(app: App, remember: RememberOne, extract: Extract) -> None:
    """C8.2: it is one itself, or tells how it ended."""
    episode = remember(f"We met. {DEAD_END} {FACT}", kind="episode")
    assert len(extract(episode.id)) == 1
    assert list(extracted(app)) == [FACT]


def test_what_is_said_twenty_times_is_kept_once(app: App, say: RememberOne, extract: Extract) -> None:
    """D4.1, R2: within one write, and between writes."""
    *_, last = [say(f"{FACT} {DEAD_END}") for _ in range(20)]
    assert len(extract()) == 2
    assert [each.details["source"] for each in extracted(app).values()] == [last.id] * 2
    assert extract() == [None, None]
    say("And so. the PORT is 5432!")
    extract()
    assert len(extracted(app)) == 2


def test_what_was_remembered_or_corrected_is_not_stored(
    app: App, remember: RememberOne, say: RememberOne, extract: Extract
) -> None:
    """D4.1, R8: by the words of it, as a record of any kind outside the log."""
    remember("the port is 5432")
    remember(DEAD_END)
    remember("The cache did not help.", kind="episode")
    old = remember("The host is db1.", visibility="user")
    app.revise(Revision(id=old.id, text="The host is db2."), app.caller())
    lately = remember("The pool did not help.", kind="episode")
    app.revise(Revision(id=lately.id, text="The pool of 40 did help."), app.caller())
    text = f"{FACT} {DEAD_END} The cache did not help. The host is db1. The pool did not help."
    say(text, caller=app.caller("theirs"), visibility="private")
    say(text, caller=app.caller("ours"))
    say(f"It turned out to be so. {text}", "assistant", caller=app.caller("ours"))
    extract()
    assert {each.scope for each in extracted(app).values()} == {
        each.scope for each in everything(app) if each.kind == "message" and each.visibility == "private"
    }
    assert set(extracted(app)) == {FACT, DEAD_END, "The cache did not help."}


@pytest.mark.parametrize("status", ["failed", "abandoned", "complete"])
def test_of_a_task_that_failed_the_dead_ends_are_kept(
    app: App, say: RememberOne, extract: Extract, status: FinalStatus
) -> None:
    """D4.1, T1.3, T2.2: its facts and decisions may be wrong; what did not work did not."""
    app.tasks.push(PushRequest(goal="try it"), app.caller())
    say(SAID)
    app.tasks.pop(PopRequest(result="so it went", status=status), app.caller())
    extract()
    found = {each.text: each.kind for each in extracted(app).values()}
    if status == "complete":
        assert found == {text: kind for text, (kind, *_) in STATED.items()}
    else:
        assert found == {"Raising the timeout didn't fix the flaky test.": "episode"}


def test_of_a_task_that_fails_meanwhile_the_dead_ends_are_kept(app: App, say: RememberOne, extract: Extract) -> None:
    """D4.1, T1.3: what was made ready is not stored."""
    app.tasks.push(PushRequest(goal="try it"), app.caller())
    say(f"{FACT} {DEAD_END}")
    extract(meanwhile=lambda: app.tasks.pop(PopRequest(result="no", status="failed"), app.caller()))
    assert list(extracted(app)) == [DEAD_END]


@pytest.mark.parametrize("mode", ["erase", "retire"])
def test_nothing_is_kept_of_what_is_forgotten(app: App, say: RememberOne, extract: Extract, mode: ForgetMode) -> None:
    """D4.1, R9: also where that happens while it is made ready."""
    message = say(f"{FACT} {DEAD_END}")
    assert extract(meanwhile=lambda: app.forget([message.id], mode, app.caller())) == [None, None]
    assert extract() == []


def test_what_a_message_no_longer_says_is_not_kept(app: App, say: RememberOne, extract: Extract) -> None:
    """D4.1."""
    message = say(f"So. {FACT}")
    assert extract(meanwhile=lambda: app.revise(Revision(id=message.id, text="Well."), app.caller())) == [None]


def test_what_was_extracted_from_a_message_is_erased_with_it(app: App, say: RememberOne, extract: Extract) -> None:
    """D4.1, R9: of whatever kind, where it still has the message's words."""
    message = say(SAID)
    other = say(f"So. {FACT}")
    extract()
    corrected = extracted(app)["Never push to main."].id
    app.revise(Revision(id=corrected, text="Push to main on Mondays."), app.caller())
    gone = [
        each.id for each in extracted(app).values() if each.details["source"] == message.id and each.id != corrected
    ]
    assert sorted(app.forget([message.id], "erase", app.caller()).extracted) == sorted(gone)
    assert len(gone) == 3
    assert {each.text for each in everything(app)} == {GOAL, f"So. {FACT}", FACT, "Push to main on Mondays."}
    assert extracted(app)[FACT].details["source"] == other.id


def test_what_only_a_branch_knows_comes_out_of_it(app: App, say: RememberOne, extract: Extract) -> None:
    """T4.3, R2: said outside of it as well, each is stored once."""
    app.tasks.push(PushRequest(goal="try", branch=True), app.caller("inside"))
    inside = say(f"{FACT} {DEAD_END}", caller=app.caller("inside"))
    outside = say(f"So. {FACT} {DEAD_END}", caller=app.caller("outside"))
    stored = extract(inside.id)
    assert {each.branch_id is None for each in extracted(app).values()} == {False}
    assert extract(outside.id) == stored
    assert {each.branch_id for each in extracted(app).values()} == {None}
    assert len(extracted(app)) == 2


def test_what_a_branch_and_the_trunk_say_is_ready_for_both(app: App, say: RememberOne, extract: Extract) -> None:
    """T4.3: the branch's is stored first, and comes out of it in the same write."""
    app.tasks.push(PushRequest(goal="try", branch=True), app.caller("inside"))
    say(FACT, caller=app.caller("inside"))
    say(FACT, caller=app.caller("outside"))
    first, second = extract()
    assert first == second
    assert extracted(app)[FACT].branch_id is None


def test_vectors_are_made_at_once_or_come_later(
    app: App, say: RememberOne, extracting: Extractor, extract: Extract
) -> None:
    """D4.1, S2.2: a compaction cannot wait for thousands; without a statement nothing is embedded."""
    waits = say(f"So. {FACT}")
    done = say(f"So. {DEAD_END}")
    extract(waits.id)
    assert app.records.count_unembedded() == 1
    extract(done.id, embedded=True)
    assert app.records.count_unembedded() == 1
    assert app.reindex.catch_up() == 1
    assert extracting.drafts([], embedded=True) == []


def test_a_source_is_told_to_be_unknown_once(app: App, remember: RememberOne, extracting: Extractor) -> None:
    """C8.7: what it states, by where and what it is; nothing where all of it is known."""
    episode = remember(f"{FACT}\nthe PORT is 5432!\nNever push to main.", kind="episode")
    [source] = [each for each in everything(app) if each.id == episode.id]
    assert [each.text for each in extracting.unknown(source, []).values()] == [FACT, "Never push to main."]
    assert extracting.unknown(replace(source, text="Well."), []) == {}
    remember(FACT)
    assert [each.text for each in extracting.unknown(source, []).values()] == ["Never push to main."]


def test_what_was_extracted_was_stored_in_no_session(app: App, remember: RememberOne, extract: Extract) -> None:
    """A2.1: an old session is not the latest for being compacted."""
    remember(SAID, caller=app.caller("old"), kind="message", role="user")
    remember("Hello.", caller=app.caller("new"), kind="message", role="user")
    extract()
    where = RecordFilter(scopes=app.caller().scopes)
    assert app.records.recent_sessions(where, 6)[0] == "new"


@given(
    said=st.lists(
        st.lists(
            st.sampled_from([*SAID.splitlines(), FACT, DEAD_END, "the port is 5432", "x" * 50, "试过但是失败了。"])
        )
        | st.lists(st.text(), max_size=3),
        max_size=5,
    )
)
def test_extracting_twice_is_extracting_once(
    open_memory: Callable[..., App], embedder: MiniLMEmbedder, clock: "Clock", said: Sequence[Sequence[str]]
) -> None:
    """D4.1: whatever was said, each statement is stored once, in words of its message."""
    app = open_memory(folder=None)
    extracting = Extractor(app.records, embedder, TiktokenCounter())
    texts = [" \n".join(lines) for lines in said]
    items = [NewRecord(text=text, kind="message", role="user") for text in texts if without_controls(text)[0].strip()]
    if items:
        app.remember(items, app.caller())
    messages = everything(app)
    first, second = [_written(app, extracting, messages, clock.now) for _ in range(2)]
    assert first == second == list(dict.fromkeys(first))
    # Questions and asides between its sentences may be left out, and a decision quotes what was proposed.
    log = " ".join(" ".join(each.text.split()) for each in messages).casefold()
    parts = [sentence for text in first for sentence in sentences_of(text.replace(" → ", "\n"))]
    assert all(part.removeprefix("refused: ") in log for part in map(str.casefold, parts))


def _written(app: App, extracting: Extractor, messages: Sequence[Record], at: float) -> list[str]:
    """The texts of all that was extracted after these messages were."""
    with app.records.write() as transaction:
        for draft in extracting.drafts(messages, embedded=False):
            extracting.store(draft, at, transaction)
    return [each.text for each in everything(app) if "source" in each.details]

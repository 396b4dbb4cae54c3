"""Sessions on the page: their logs, compactions as steps, what they state, and undoing the latest compaction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.page.sessions import PAGE_ENTRIES, PAGE_SESSIONS, PAGE_STEPS, SHOWN_CHARACTERS
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.branch_visibility import visible_to
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.entrypoints.http.conftest import HttpServer, make_token
from tests.entrypoints.page.conftest import NAMESPACE, Beside, attributes_of, memory_of, person, words_of
from tests.entrypoints.page.test_overviews import next_page, the_owner
from tests.services.sessions.conversations import fed, session

HOSTILE = "</script><script>alert(1)</script>{{ 7*7 }} \u202etxt.exe\u202c <img src=x onerror=alert(1)>"


def in_session(beside: Beside, name: str, agent: str = "ann") -> Caller:
    return replace(beside.memory.caller(name, "codex"), agent=agent)


def say(beside: Beside, name: str, *texts: str, role: str = "user", agent: str = "ann") -> list[str]:
    caller = in_session(beside, name, agent)
    beside.memory.feed([NewRecord(kind="message", role=role, text=text) for text in texts], caller)
    return [entry.id for entry in beside.memory.logs.log(caller).entries]


def compacted(beside: Beside, name: str, turns: int = 12, window: int = 2_000, agent: str = "ann") -> Caller:
    caller = in_session(beside, name, agent)
    fed(beside.memory, caller, turns)
    beside.memory.compact(CompactRequest(window=window, force=True), caller)
    return caller


def with_compactions(beside: Beside) -> list[str]:
    """The lines of an export with the compactions' replacements, but without the list of compactions."""
    from io import BytesIO

    from mcp_memory.entrypoints.transfer.memory_file import write_memory

    target = BytesIO()
    write_memory(beside.memory.moving.leave(), target, lambda done, total: None)
    lines = target.getvalue().decode().splitlines()
    history = ('{"compaction"', '{"memory"', '{"session"', '{"review"')
    return sorted(re.sub(r'"accessed_at":[0-9.e+]+,', "", line) for line in lines if not line.startswith(history))


def test_sessions_are_listed_with_their_logs_against_the_window(beside: Beside) -> None:
    """U1.1: agent, client, when, how full, how often compacted; not what only stored records."""
    compacted(beside, "exports")
    beside.memory.remember([NewRecord(text="The moat has carp.")], in_session(beside, "carp"))
    page = beside.person.get("/sessions")
    words = words_of(page)
    assert re.search(r"exports The log: [\d,]+ tokens ann \(codex\) just now", words)
    assert re.search(r"[\d,]+ of 100,000 tokens in \d+ entries compacted 1 time begun", words)
    assert 'href="/ui/session/exports"' in page.text
    assert "carp" not in words
    assert 'href="/ui/sessions" aria-current="page"' in page.text


def test_a_session_shows_its_log_its_window_and_its_compactions(beside: Beside) -> None:
    """U1.1: what was replaced, before and after, by which passes; the originals one click away."""
    caller = compacted(beside, "steps")
    log = beside.memory.logs.log(caller)
    [step] = beside.memory.logs.compactions(caller)
    page = beside.person.get("/session/steps")
    words = words_of(page)
    assert f"Compaction 1: {step.before:,} → {step.after:,} tokens" in words
    assert "on a call" in words
    assert re.search(r"mask [\d,]+ → [\d,]+ in \d+ blocks", words)
    assert f"{log.tokens:,} of 100,000 tokens" in words
    assert "Blocks and summaries" in words
    block = next(entry for entry in log.entries if len(entry.covers) > 1)
    assert f'href="/ui/block/{block.id}"' in page.text
    shown = beside.person.get("/compaction/1/steps")
    assert f'href="/ui/block/{block.id}"' in shown.text
    originals = beside.person.get(f"/block/{block.id}")
    assert all(f'href="/ui/record/{each}"' in originals.text for each in block.covers[:PAGE_ENTRIES])
    assert 'href="/ui/session/steps"' in originals.text


def test_the_latest_compaction_is_undone_and_nothing_else_has_changed(beside: Beside) -> None:
    """U1.2, E8.1: the export is equal to the byte but for the list of compactions; it goes once."""
    caller = in_session(beside, "masked")
    fed(beside.memory, caller, 12)
    before, log = with_compactions(beside), beside.memory.logs.log(caller)
    beside.memory.compact(CompactRequest(window=4_000, passes=("mask",)), caller)
    assert with_compactions(beside) != before
    beside.person.get("/session/masked")
    fields = beside.person.fields("/uncompacted")
    words = words_of(beside.person.send("/uncompacted"))
    assert "Undone: the log is as it was" in words
    assert "undone just now" in words
    assert not beside.person.has_form("/uncompacted")
    assert with_compactions(beside) == before
    assert beside.memory.logs.log(caller) == log
    again = beside.person.post("/uncompacted", fields)
    assert (again.status_code, "Changed meanwhile" in words_of(again)) == (409, True)
    assert "it was undone, and the originals are in the log" in words_of(beside.person.get("/compaction/1/masked"))


def test_undoing_a_summary_keeps_what_was_extracted_and_retires_its_record(beside: Beside) -> None:
    """U1.2, E8.1: no line of the export is lost or changed; the log is as it was."""
    caller = in_session(beside, "summed")
    log, before = fed(beside.memory, caller, 12), with_compactions(beside)
    beside.memory.compact(CompactRequest(window=2_000, force=True), caller)
    beside.person.get("/session/summed")
    beside.person.send("/uncompacted")
    after = with_compactions(beside)
    assert set(before) <= set(after)
    assert not [line for line in after if line.startswith('{"replacement"') and '"summed"' in line]
    assert beside.memory.logs.log(caller) == log
    history = beside.memory.records.list(  # Who did it is told.
        replace(
            visible_to(beside.memory.records, caller),
            kinds=frozenset({"summary"}),
            session_id="summed",
            include_inactive=True,
        ),
        "created",
        9,
    )
    assert [each.status for each in history] == ["retired"]
    assert [each.client for each in beside.memory.records.latest_versions(history[0].id, 1)] == ["page"]


def test_another_compaction_that_came_meanwhile_is_not_undone(beside: Beside) -> None:
    """U1.2: the form names the one it was about; an earlier one waits for the later ones."""
    caller = compacted(beside, "twice")
    beside.person.get("/session/twice")
    fields = beside.person.fields("/uncompacted")
    beside.memory.feed(session(24)[60:], caller)
    beside.memory.compact(CompactRequest(window=2_000, force=True), caller)
    log = beside.memory.logs.log(caller)
    answer = beside.person.post("/uncompacted", fields)
    assert answer.status_code == 409
    assert "another came after it" in words_of(answer)
    assert beside.memory.logs.log(caller) == log
    words = words_of(beside.person.get("/session/twice"))
    assert "To undo it, undo the later ones first." in words
    assert beside.person.fields("/uncompacted")["number"] == ["2"]
    for wrong in ({"session": "", "number": "2"}, {"session": "twice", "number": "x"}):
        assert beside.person.post("/uncompacted", {"csrf": beside.person.csrf, **wrong}).status_code == 400


def test_a_log_is_read_in_order_page_by_page_also_where_it_grows(beside: Beside) -> None:
    """U1.1: each entry once; back again, and to the end."""
    ids = say(beside, "long", *(f"Message number {number} of many." for number in range(2 * PAGE_ENTRIES + 5)))
    shown = beside.person.get("/session/long").text
    assert _shown(shown) == ids[:PAGE_ENTRIES]
    say(beside, "long", "Meanwhile.")
    second = beside.person.get(_link(shown, "next")).text
    assert _shown(second) == ids[PAGE_ENTRIES : 2 * PAGE_ENTRIES]
    third = beside.person.get(_link(second, "next")).text
    assert _shown(third)[:-1] == ids[2 * PAGE_ENTRIES :]
    assert _link(third, "next") == ""
    assert _shown(beside.person.get(_link(second, "prev")).text) == ids[:PAGE_ENTRIES]
    assert _shown(beside.person.get("/session/long?end=1").text)[-2:-1] == ids[-1:]
    assert _shown(beside.person.get("/session/long?after=zzzzzzzzzzzz").text)[-2:-1] == ids[-1:]
    assert _shown(beside.person.get("/session/long?before=r").text) == ids[:PAGE_ENTRIES]


def _shown(page: str) -> list[str]:
    return re.findall(r'href="/ui/record/(r\w+)"', page.partition('id="log"')[2])


def _link(page: str, rel: str) -> str:
    found = re.search(rf'rel="{rel}" href="\?([^"#]*)', page)
    return f"/session/long?{found[1].replace('&amp;', '&')}" if found else ""


def test_long_and_hostile_messages_are_shown_as_words_and_folded(beside: Beside) -> None:
    """U1.1, S3.1: no more of a text of a million signs than a page can hold; nor of a name."""
    name = 'a "name"/<b>of it</b>?&%'
    [record] = say(beside, name, HOSTILE + " x" * 500_000)
    page = beside.person.get(f"/session/{_quoted(name)}")
    assert page.status_code == 200
    assert len(page.text) < 2 * SHOWN_CHARACTERS + 20_000
    words = words_of(page)
    assert HOSTILE.replace("\u202e", "⟦U+202E⟧").replace("\u202c", "⟦U+202C⟧") in words
    assert name in words
    assert "<img" not in page.text
    assert f'<a href="/ui/record/{record}">All 1,000,' in page.text
    assert not {each for each in attributes_of(page) if each.startswith("on")}
    listed = beside.person.get("/sessions").text
    assert f'href="/ui/session/{_quoted(name)}"' in listed
    assert "<b>of it" not in listed
    for path in (f"/stated/{_quoted(name)}", f"/compaction/1/{_quoted(name)}"):
        assert "<b>of it" not in beside.person.get(path).text


def _quoted(name: str) -> str:
    return quote(name)


def test_what_a_session_states_leads_to_its_sources(beside: Beside) -> None:
    """U1.1: goal, decisions with reasons, exact values."""
    ids = say(beside, "stated", "Move the shop to PostgreSQL 16. It may take until Friday.")
    say(beside, "stated", "Shall we use port 6543 or port 5432?", role="assistant")
    said = say(beside, "stated", "Port 6543, because the firewall lets it through.")[-1]
    page = beside.person.get("/stated/stated")
    words = words_of(page)
    assert words.index("Goal") < words.index("Decisions") < words.index("Exact values PostgreSQL 16")
    assert "port 6543" in words.partition("Exact values")[2]
    assert page.text.count(f'href="/ui/record/{said}"') >= 2
    assert f'href="/ui/record/{ids[0]}"' in page.text
    caller = compacted(beside, "stated in short", turns=20)
    block = next(entry for entry in beside.memory.logs.log(caller).entries if entry.form == "summary")
    assert f'href="/ui/block/{block.id}"' in beside.person.get("/stated/stated in short").text


def test_sessions_and_compactions_are_paged(beside: Beside) -> None:
    """U1.1: each once."""
    names = [f"many {number}" for number in range(PAGE_SESSIONS + 3)]
    for name in names:
        say(beside, name, "Hello.")
    first = beside.person.get("/sessions").text
    say(beside, "meanwhile", "Hello.")
    second = beside.person.get(next_page(first)).text
    linked = [f'/ui/session/{_quoted(name)}"' for name in names]
    assert [first.count(each) + second.count(each) for each in linked] == [1] * len(names)
    assert beside.person.get("/sessions?before=x").status_code == 400
    caller = in_session(beside, "often")
    with beside.memory.records.write() as transaction:
        for number in range(PAGE_STEPS + 2):
            transaction.begin_compaction(caller, "idle", float(number), 10)
    say(beside, "often", "Hello.")
    page = beside.person.get("/session/often").text
    assert re.findall(r"Compaction (\d+):", page) == [str(each) for each in range(PAGE_STEPS + 2, 2, -1)]
    assert "what it covered was erased" in page
    rest = beside.person.get("/session/often?step=3").text
    assert re.findall(r"Compaction (\d+):", rest) == ["2", "1"]


@pytest.mark.parametrize(
    "path",
    ["/session/nowhere", "/session/", "/stated/nowhere", "/compaction/1/nowhere", "/compaction/x/exports",
     "/block/r000001", "/block/x0", "/block/x%22%3E"],
)  # fmt: skip
def test_what_is_not_there_is_not_repeated(beside: Beside, path: str) -> None:
    """U1.1: nothing of an address gets into a page."""
    answer = beside.person.get(path)
    assert answer.status_code == 404
    assert "nowhere" not in answer.text
    assert "x0" not in words_of(answer)


def test_a_session_that_only_stored_records_leads_to_them(beside: Beside) -> None:
    """U1.1: its page does; a record names such a session without a link."""
    caller = in_session(beside, "only stored")
    [stored] = beside.memory.remember([NewRecord(text="The abbey brews beer.")], caller)
    page = beside.person.get(f"/record/{stored.id}")
    assert "only stored" in words_of(page)
    assert "/ui/session/" not in page.text
    page = beside.person.get("/session/only stored")
    assert "No conversation of the agent ann was logged" in words_of(page)
    assert 'href="/ui/?session_id=only+stored"' in page.text
    assert "The rules found nothing" in words_of(beside.person.get("/stated/only stored"))


def test_other_screens_lead_to_the_session(beside: Beside) -> None:
    """U1.1: contexts and tasks."""
    caller = in_session(beside, "linked")
    beside.memory.remember([NewRecord(text="Is there beer?", kind="message", role="user")], caller)
    context = beside.memory.assemble_context(ContextRequest(query="beer"), caller).report.id
    task = beside.memory.tasks.push(PushRequest(goal="Brew beer"), caller).current
    assert task
    for path in ("/contexts", f"/context/{context}", f"/task/{task.id}"):
        assert 'href="/ui/session/linked"' in beside.person.get(path).text, path
    beside.memory.tasks.pop(PopRequest(result="done"), caller)


def test_the_owner_sees_the_sessions_of_all_agents_and_others_their_own(beside: Beside) -> None:
    """U1.1, S4.1: as with blocks; the undo is for whom the page looks as."""
    caller = compacted(beside, "of bob", agent="bob")
    assert "of%20bob" not in beside.person.get("/sessions").text
    assert beside.person.get("/compaction/1/of bob?of=bob").status_code == 404
    assert "No conversation of the agent ann" in words_of(beside.person.get("/session/of bob?of=bob"))
    with the_owner(beside) as owner:
        assert 'href="/ui/session/of%20bob?of=bob"' in owner.get("/sessions").text
        page = owner.get("/session/of bob?of=bob")
        assert "look as bob: mcp-memory ui --agent bob" in words_of(page)
        assert not owner.has_form("/uncompacted")
        assert 'href="/ui/compaction/1/of%20bob?of=bob"' in page.text
        assert "In their place" in words_of(
            owner.get(f"/block/{beside.memory.logs.stand_ins(caller)[0].entry.id}?of=bob")
        )
    assert [one.undone_at for one in beside.memory.logs.compactions(caller)] == [None]


def test_a_token_that_reads_sees_no_undo_and_is_refused(start_http: Callable[..., HttpServer], tmp_path: Path) -> None:
    """U1.1, S4.2: by the server too."""
    data_dir = tmp_path / "data"
    secret = make_token(data_dir, "ann", NAMESPACE, right="read")
    memory = memory_of(data_dir)
    caller = memory.caller("read")
    fed(memory, caller, 12)
    memory.compact(CompactRequest(window=2_000, force=True), caller)
    reader = person(start_http(data_dir, namespace=NAMESPACE), secret)
    assert "Compaction 1:" in words_of(reader.get("/session/read"))
    assert not reader.has_form("/uncompacted")
    answer = reader.post("/uncompacted", {"csrf": reader.csrf, "session": "read", "number": "1"})
    assert answer.status_code == 403
    assert [one.undone_at for one in memory.logs.compactions(caller)] == [None]
    memory.close()

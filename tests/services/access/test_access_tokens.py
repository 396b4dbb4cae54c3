"""Tokens are made, recognised and revoked; and what they keep apart when memory works by itself."""

import math
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record, Visibility
from mcp_memory.domain.model.scopes import Caller, Grant, RecordFilter
from mcp_memory.domain.text.times import iso
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.services.access.access_tokens import LATEST_EXPIRY, agent_of_issuer
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import CompactRequest
from tests.conftest import Clock
from tests.embedders import HashingEmbedder
from tests.services.memory.outcomes import FIX, Sessions

RememberOne = Callable[..., Remembered]
GRANT = Grant(agent="ann", person="", namespaces=("test", "base", "test"), right="write")
ANN = Caller(namespace="test", agent="ann", session_id="s", named_session=True, person="ann")
BOB = replace(ANN, agent="bob", person="bob")


def everything(app: App) -> dict[str, Record]:
    scopes = ("shared/test", "user", "user/ann", "user/bob", "private/ann/test", "private/bob/test")
    where = RecordFilter(scopes=scopes, include_inactive=True)
    return {each.text: each for each in app.records.list(where, "created", 100)}


def test_a_token_is_recognised_by_its_secret_alone(app: App) -> None:
    """S4.2: which is kept nowhere; the person is the agent where nobody else is named."""
    secret, token = app.tokens.add("laptop", GRANT)
    assert re.fullmatch(r"mcpm_[\w-]{43}", secret)
    assert app.tokens.recognise(secret) == token
    assert token.grant == replace(GRANT, person="ann", namespaces=("test", "base"))
    for wrong in ("", "mcpm_", secret[:-1], f"{secret}x", token.id, token.digest, "\ud800"):
        assert app.tokens.recognise(wrong) is None
    with closing(sqlite3.connect(app.settings.data_dir / "memory.db")) as connection:
        assert secret[5:] not in "\n".join(connection.iterdump())


def test_who_was_recognised_stays_so_while_the_token_is_valid(app: App, clock: Clock) -> None:
    """U4.1: by its id, which is no secret."""
    _, token = app.tokens.add("laptop", GRANT, expires_at=clock() + 60)
    assert app.tokens.valid(token.id) == token
    assert app.tokens.valid("0" * 16) is None
    clock.advance(hours=1)
    assert app.tokens.valid(token.id) is None


def test_another_secret_with_the_same_beginning_of_its_digest_is_no_token(app: App) -> None:
    """S4.2: the whole of it counts."""
    secret, token = app.tokens.add("laptop", GRANT)
    with closing(sqlite3.connect(app.settings.data_dir / "memory.db")) as connection:
        connection.execute("UPDATE tokens SET digest = ?", (f"{token.digest[:-1]}x",))
        connection.commit()
    assert app.tokens.recognise(secret) is None


def test_a_token_ends_when_it_expires_or_is_revoked(app: App, clock: Clock) -> None:
    """S4.2: and the server goes on asking for one."""
    assert not app.tokens.are_asked_for()
    short, _ = app.tokens.add("short", GRANT, clock() + 10)
    long, _ = app.tokens.add("long", GRANT)
    clock.advance(seconds=10)
    assert app.tokens.recognise(short) is None
    assert app.tokens.recognise(long)
    app.tokens.revoke("long")
    assert app.tokens.recognise(long) is None
    assert {each.name: each.revoked_at for each in app.tokens.all()} == {"short": None, "long": clock()}
    assert app.tokens.are_asked_for()
    with pytest.raises(Conflict, match="Token 'long' is revoked already"):
        app.tokens.revoke("long")
    with pytest.raises(NotFound, match="There is no token 'longer'"):
        app.tokens.revoke("longer")


@pytest.mark.parametrize(
    ("name", "grant", "why"),
    [
        ("", GRANT, "The name must be 1 to 200"),
        ("a\nb", GRANT, "The name must be 1 to 200"),
        ("a", replace(GRANT, agent="a/b"), "The agent must not hold a slash"),
        ("a", replace(GRANT, person="a/b"), "The person must not hold a slash"),
        ("a", replace(GRANT, agent=" ", person="p"), "The agent must be"),
        ("a", replace(GRANT, namespaces=("x" * 201,)), "The namespace must be"),
        ("a", replace(GRANT, namespaces=()), "Name at least one project"),
    ],
)
def test_a_token_has_names_that_can_be_told_apart(app: App, name: str, grant: Grant, why: str) -> None:
    """S4.1, S4.2."""
    with pytest.raises(InvalidRequest, match=why):
        app.tokens.add(name, grant)
    assert not app.tokens.are_asked_for()


def test_a_token_that_would_have_expired_is_not_made(app: App, clock: Clock) -> None:
    for never in (clock(), math.inf, math.nan, LATEST_EXPIRY + 1):
        with pytest.raises(InvalidRequest, match="choose another time"):
            app.tokens.add("late", GRANT, never)
    app.tokens.add("last", GRANT, LATEST_EXPIRY)
    assert iso(LATEST_EXPIRY).startswith("9999-12-31T23:59:59")
    app.tokens.add("early", GRANT)
    with pytest.raises(Conflict):
        app.tokens.add("early", GRANT)


@pytest.mark.uncounted
def test_what_is_a_persons_is_read_by_agents_of_that_person_alone(app: App, remember: RememberOne) -> None:
    """S4.1, S4.2: in each of its namespaces; the owner's own is nobody's who comes with a token."""
    mine = app.caller()
    texts = {caller.person or "owner": f"Tea for {caller.person or 'the owner'}." for caller in (mine, ANN, BOB)}
    for caller in (mine, ANN, BOB):
        remember(texts[caller.person or "owner"], caller, visibility="user")
    for caller in (mine, ANN, replace(ANN, agent="other", namespace="base"), BOB):
        results = app.recall(RecallRequest(query="Tea"), caller).results
        assert [result["text"] for result in results] == [texts[caller.person or "owner"]]


def test_nobody_takes_from_others_what_their_agents_have_stored(app: App, remember: RememberOne) -> None:
    """S4.1, S4.2: to hide is not to destroy, but for those who saw it it is gone."""
    record = remember("The port is 5432.", ANN)
    for visibility in ("private", "user"):
        with pytest.raises(Conflict, match="stored by 'ann'; only that agent, or an administrator"):
            app.revise(Revision(id=record.id, visibility=visibility), BOB)
    assert app.revise(Revision(id=record.id, visibility="private"), ANN).scope == "private/ann/test"
    assert app.revise(Revision(id=record.id, visibility="shared"), ANN).scope == "shared/test"
    for reason in ("changed by ann", "stored by 'ann'; only that agent, or an administrator"):
        with pytest.raises(Conflict, match=reason):
            app.revise(Revision(id=record.id, visibility="private"), app.caller())
    grant = Grant(agent="eve", person="eve", namespaces=("test",), right="admin")
    eve = grant.caller("test", "s1", ())
    app.recall(RecallRequest(ids=(record.id,)), eve)
    assert app.revise(Revision(id=record.id, visibility="private"), eve).scope == "private/ann/test"


def test_what_was_made_of_a_hidden_record_stays_in_its_own_namespace(app: App, remember: RememberOne) -> None:
    """S4.1: also where the record is hidden from another."""
    source = remember("The port is 5432.", ANN, kind="episode", visibility="user")
    remember("Port: 5432", ANN, details={"source": source.id})
    app.revise(Revision(id=source.id, visibility="private"), replace(ANN, namespace="other"))
    made = everything(app)["Port: 5432"]
    assert (made.namespace, made.scope) == ("test", "private/ann/test")


def test_what_becomes_a_persons_own_takes_what_was_made_of_it_along(app: App, remember: RememberOne) -> None:
    """S4.1: for the owner of the memory it was everybody's before, and is so still."""
    for caller in (ANN, app.caller()):
        said = f"The port of {caller.agent} is 5432."
        source = remember(said, caller, kind="episode")
        remember(f"Port of {caller.agent}: 5432", caller, details={"source": source.id})
        app.revise(Revision(id=source.id, visibility="user"), caller)
    scopes = {text: record.scope for text, record in everything(app).items()}
    assert (scopes["The port of ann is 5432."], scopes["Port of ann: 5432"]) == ("user/ann", "private/ann/test")
    assert (scopes["The port of default is 5432."], scopes["Port of default: 5432"]) == ("user", "shared/test")


@pytest.mark.parametrize(("who", "is_settled"), [(ANN, True), (BOB, False)])
def test_what_one_person_corrected_for_themselves_binds_no_other(
    app: App, clock: Clock, remember: RememberOne, who: Caller, is_settled: bool
) -> None:
    """S4.1, R8: a session of another's agent comes to it again, and there it is noted."""
    for agent in ("ann", "bob"):
        app.tokens.add(agent, Grant(agent=agent, person=agent, namespaces=("test",), right="write"))
    old = remember(FIX, ANN, visibility="user")
    app.revise(Revision(id=old.id, text="It was the clock."), ANN)
    sessions = Sessions(app, clock)
    sessions.mended(who)
    assert (sessions.extract(who) == [None]) is is_settled


@pytest.mark.uncounted
@pytest.mark.parametrize("visibility", ["user", "private", "shared"])
def test_a_summary_is_seen_by_nobody_who_did_not_see_what_it_covers(
    app: App, remember: RememberOne, visibility: Visibility
) -> None:
    """S4.1: what somebody said for one person alone is in no summary that another reads."""
    for number in range(40):
        remember(
            f"About gulls, part {number}. " + "They fly over the harbour wall. " * 30,
            ANN,
            kind="message",
            role="user",
            visibility=visibility if number == 3 else "shared",
        )
    app.compact(CompactRequest(window=4_000, force=True), ANN)
    summaries = [each for each in everything(app).values() if each.kind == "summary"]
    assert summaries
    assert {each.visibility for each in summaries} == {"shared" if visibility == "shared" else "private"}


@pytest.mark.uncounted
def test_logs_are_compacted_for_the_person_whose_they_are(open_memory: Callable[..., App], clock: Clock) -> None:
    """S4.1, E2.4: without being asked."""
    app = open_memory(compaction_window=4_000, embedder=HashingEmbedder())
    app.tokens.add("ann", Grant(agent="ann", person="ann", namespaces=("test",), right="write"))
    told = [
        NewRecord(
            text=f"The port of gate {number} is {5_000 + number}. " + "Gulls fly over the harbour wall. " * 30,
            kind="message",
            role="user",
            visibility="user",
        )
        for number in range(40)
    ]
    app.remember(told, ANN)
    clock.advance(hours=1)
    app.idle_compaction.step()
    assert any(each.form != "original" for each in app.logs.log(ANN).entries)


def test_a_token_goes_along_with_a_renamed_project_and_reaches_it_by_any_name(app: App, remember: RememberOne) -> None:
    """P4.1, S4.2: never more than it holds, whatever name was whose."""
    remember("The port is 5432.")
    remember("The port is 9999.", replace(app.caller(), namespace="other"))
    app.tokens.add("laptop", GRANT)
    app.projects.rename("test", "shop")
    app.projects.rename("other", "hidden")
    [token] = app.tokens.all()
    wanted = ("", "test", "shop", "base")
    assert [app.tokens.namespace(token, each) for each in wanted] == ["shop", "shop", "shop", "base"]
    for stranger in ("other", "hidden", "nowhere"):
        with pytest.raises(InvalidRequest, match="it holds shop, base"):
            app.tokens.namespace(token, stranger)


def test_no_token_is_made_for_a_former_name(app: App, remember: RememberOne) -> None:
    """P4.1: one that an earlier version made reaches nothing, since what it would open is another project by now."""
    remember("The port is 5432.")
    app.projects.rename("test", "shop")
    with pytest.raises(Conflict, match="'test' is called 'shop' now; name that"):
        app.tokens.add("laptop", GRANT)
    assert not app.tokens.are_asked_for()
    secret, token = app.tokens.add("laptop", replace(GRANT, namespaces=("base",)))
    with closing(sqlite3.connect(app.settings.data_dir / "memory.db")) as connection, connection:
        connection.execute("UPDATE tokens SET namespaces = ?", ('["test"]',))
    token = app.tokens.recognise(secret) or token
    for wanted in ("", "test"):
        with pytest.raises(InvalidRequest, match="'test' has another name by now; ask who runs the server"):
            app.tokens.namespace(token, wanted)


def test_an_issuers_client_is_another_agent_for_each_person(app: App) -> None:
    """M3.2: private records belong to an agent, and many people use one client."""
    assert agent_of_issuer("ide", "ann") == "oauth:ide:ann"
    assert app.tokens.person_of("oauth:ide:ann") == "ann"
    long, other = (agent_of_issuer(f"https://ide.example/{name}/{'x' * 200}", "ann") for name in ("a", "b"))
    assert long != other
    assert len(long) < 100
    with pytest.raises(InvalidRequest, match="of an issuer's clients"):
        app.tokens.add("laptop", replace(GRANT, agent=agent_of_issuer("ide", "ann")))

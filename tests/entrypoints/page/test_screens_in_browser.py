"""The page in a real browser, over 300 records: each screen's main way, by pointer and by keyboard, and how it looks.

A page that logs an error, violates its policy or asks anybody else for anything fails its test (tests/browser.py).
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.browser import OF_COLOURS, Browser, Page
from tests.entrypoints.http.conftest import HttpServer, environment_of
from tests.entrypoints.page.conftest import NAMESPACE, memory_of
from tests.forked import ForkedProcess
from tests.services.sessions.conversations import session as conversation

pytestmark = pytest.mark.long

RECORDS = 300
DAY = 86_400.0
WIDTHS = (360, 390, 1_440, 2_560)
OF_A_TELEPHONE = "target-size"
"""The rule of axe-core by which a narrow screen may fail alone."""
OPEN_SCREEN = (
    "(({left, right}) => [left, right])(document.querySelector('#screens [aria-current]').getBoundingClientRect())"
)
"""The left and the right end of the open screen's link."""
_DROP_REPEATED = """\
(() => {
  const seen = new Set();
  for (const each of document.querySelectorAll(".record")) {
    const parts = [each, ...each.querySelectorAll("*")];
    const key = [...new Set(parts.map((part) => `${part.tagName} ${part.getAttribute("class")}`))].sort().join();
    if (seen.has(key)) each.remove();
    seen.add(key);
  }
})()"""
"""Leaves one of the records that are made of the same elements, for which every rule comes to the same."""
HOSTILE = (
    "</div><script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe\u202c \u200b\u200b {{ 7*7 }} "
    + "unbroken" * 60
)
_THINGS = "boiler lift gate pump printer scanner kettle projector door ladder fridge radiator".split()
_PLACES = "basement attic yard lobby kitchen garage library workshop canteen archive".split()
_FATES = "was mended by", "belongs to", "is looked after by", "was painted by", "is rented from", "was moved by"
_PEOPLE = "Ada Bo Cleo Dag Eva Finn Gus Hedda Ivo Jana Kim Lars Mia Nils Ole Pia".split()
_KINDS: tuple[Kind, ...] = ("fact", "fact", "fact", "decision", "procedure", "episode")


@dataclass(kw_only=True)
class Shop:
    """A memory that was used for a while, its server, and what the screens of the tests show."""

    memory: App
    server: HttpServer
    paths: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def origin(self) -> str:
        return self.server.address("")

    def stored(self, text: str, **fields: Any) -> str:
        return self.memory.remember([NewRecord(text=text, **fields)], self.memory.caller())[0].id

    def status(self, record_id: str) -> str:
        return self.memory.inspect.visible(record_id, self.memory.caller()).status


def _filled(memory: App) -> None:
    rng, caller, now = random.Random(1), memory.caller(), time.time()
    items = [
        NewRecord(
            text=f"The {rng.choice(_THINGS)} number {number} in the {rng.choice(_PLACES)} {rng.choice(_FATES)}"
            f" {rng.choice(_PEOPLE)}{rng.choice(['', ', who has the key', '; ask before noon'])}.",
            kind=rng.choice(_KINDS),
            tags=tuple(rng.sample(_PLACES, rng.randrange(3))),
            session_id=f"s{number // 100}",
            occurred_at=now - rng.random() * 40 * DAY,
        )
        for number in range(RECORDS)
    ]
    memory.remember(items, caller, advise=False)


def _used(shop: Shop) -> None:
    """Leave what each screen shows: a corrected record, tasks, a group to review, contexts."""
    memory, caller = shop.memory, shop.memory.caller()
    old = shop.stored("The staging database listens on port 5432.", tags=("ops",))
    shown = shop.stored("The staging database listens on port 6543.", tags=("ops",), supersedes=(old,))
    shop.stored("Connect to staging by the port in the vault.", kind="decision", depends_on=(shown,))
    shop.stored("Ask Ines before anything is deployed on a Friday.", kind="censor")
    shop.stored("Ines runs the house; she wants short answers.", kind="identity")
    tasks = memory.tasks
    tasks.push(PushRequest(goal="Move the shop to the new database", plan=("Switch over", "Tell everybody")), caller)
    tasks.push(PushRequest(goal="Copy it with a dump", branch=True), caller)
    tasks.pop(PopRequest(result="The dump takes nine hours; the shop cannot close that long.", status="failed"), caller)
    now_in = tasks.push(PushRequest(goal="Replicate it, then switch", success_criteria="no order is lost"), caller)
    assert now_in.current
    for query in ("which port does the staging database have", "who has the key of the boiler in the basement", ""):
        context = memory.assemble_context(
            ContextRequest(query=query, max_tokens=900, occasion="call" if query else "start"), caller
        ).report.id
    for at in ("02:00", "04:30"):
        shop.stored(f"The backup of the shop runs at {at}.")
    talk = caller.in_session("move the shop")
    memory.feed(conversation(12), talk)
    memory.compact(CompactRequest(window=2_500, force=True), talk)
    memory.feed([NewRecord(kind="message", role="user", text=f"{HOSTILE} {'and so on ' * 200}")], talk)
    block = memory.logs.stand_ins(talk)[0].entry.id
    hostile = shop.stored(HOSTILE, tags=("<b>",))
    shop.paths |= {
        "memories": "/", "new": "/new", "search": "/?q=staging+database+port", "record": f"/record/{shown}",
        "edit": f"/record/{shown}/edit", "supersede": f"/record/{shown}/supersede", "erase": f"/record/{shown}/erase",
        "hostile": f"/record/{hostile}", "hostile edit": f"/record/{hostile}/edit",
        "hostile supersede": f"/record/{hostile}/supersede", "hostile erase": f"/record/{hostile}/erase",
        "projects": "/projects", "path": f"/topics?from={hostile}&to=staging",
        "review": "/review", "contexts": "/contexts", "context": f"/context/{context}",
        "again": f"/context/{context}/again?goal=database&budget=1200&strategy=debugging",
        "would": "/contexts/would?goal=staging+database&budget=2000&strategy=", "work": "/work",
        "task": f"/task/{now_in.current.id}", "health": "/health",
        "sessions": "/sessions", "session": "/session/move the shop", "stated": "/stated/move the shop",
        "compaction": "/compaction/1/move the shop", "block": f"/block/{block}", "nowhere": "/nowhere",
        "access": "/access", "go": "/go", "topics": "/topics", "pinned": "/?pinned=yes&kind=fact",
    }  # fmt: skip


@pytest.fixture(scope="module")
def shop(
    chromium: Browser, start_http: Callable[..., HttpServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """The memory and its server, which all tests of this module share; first of all there has to be a browser."""
    data_dir = tmp_path_factory.mktemp("shop") / "data"
    memory = memory_of(data_dir)
    _filled(memory)
    server = start_http(data_dir, namespace=NAMESPACE, agent="ann", maintain_minutes=0)  # Finds no groups by itself.
    shop = Shop(memory=memory, server=server)
    _used(shop)
    yield shop
    memory.close()


@contextmanager
def visiting(chromium: Browser, shop: Shop, path: str = "/") -> Generator[Page]:
    """A page at that address, after signing in."""
    with chromium.page(shop.origin) as page:
        page.open(f"/ui{path}")
        page.faults.clear()  # The browser logs that the first answer is 401.
        page.click("button", "Open the memory")
        page.wait_for("Memories")
        yield page


def undo(page: Page) -> None:
    page.click("button", "Undo")
    page.wait_for("Undone.")


def test_a_wrong_text_is_found_corrected_and_taken_back(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: the words that changed are shown."""
    record_id = shop.stored("The canteen sells 75 pretzels a day.")
    with visiting(chromium, shop) as page:
        page.fill("input[type=search]", "how many pretzels")
        page.click("button", "Search")
        page.click("a", "The canteen sells 75 pretzels a day.")
        page.click("a", "Edit")
        page.fill("textarea#text", "The canteen sells 90 pretzels a day.")
        page.click("button", "Save")
        page.wait_for("Changed.")
        assert page.value("[document.querySelector('del').textContent, document.querySelector('ins').textContent]") == [
            "75", "90",
        ]  # fmt: skip
        assert page.value("location.pathname") == f"/ui/record/{record_id}"
        undo(page)
        assert page.value("document.querySelector('#text').textContent") == "The canteen sells 75 pretzels a day."


def test_several_are_retired_at_once_and_come_back(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: by a filter, by one button."""
    ids = [shop.stored(f"Moped {n} stands in bay {n}.", tags=("mopeds",)) for n in range(3)]
    with visiting(chromium, shop, "/?tag=mopeds") as page:
        for each in ids[:2]:
            page.click(f"input[value={each}]")
        page.click("button", "Retire")
        page.wait_for("agents no longer find")
        assert [shop.status(each) for each in ids] == ["retired", "retired", "new"]
        undo(page)
        assert [shop.status(each) for each in ids] == ["new", "new", "new"]


def test_a_record_is_superseded_and_another_one_erased(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: by another one, found by its words; erasing takes the id, typed by hand, and the owner's link."""
    record_id = shop.stored("The sauna opens at five.")
    other = shop.stored("Towels of the sauna lie in the hall.")
    with visiting(chromium, shop, f"/record/{record_id}") as page:
        page.click("a", "Replace")
        page.click("button", "Find it…")
        page.type("sauna")
        page.wait("document.querySelector('#palette-record-0[aria-selected=true]')")
        assert "five" not in page.value("document.getElementById('palette-list').textContent"), "not by itself"
        page.press("Enter")
        assert page.value("[document.activeElement.id, document.activeElement.value]") == ["by", other]
        page.fill("#by", "")
        page.fill("textarea", "The sauna opens at six.")
        page.click("button", "Replace")
        page.wait_for("Superseded")
        assert shop.status(record_id) == "superseded"
        undo(page)
        assert shop.status(record_id) == "new"
        page.open(f"/ui/record/{record_id}/erase")
        page.fill("#typed", record_id)
        page.click("button", "Erase")
        page.wait_for("Erased")
    assert record_id not in shop.memory.records.get([record_id], shop.memory.caller().scopes)


def test_a_record_is_found_and_marked_as_wrong_without_a_pointer(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: / searches, j goes to the item, Enter opens it, w takes a reason, and u."""
    record_id = shop.stored("Penguins live in the attic.")
    with visiting(chromium, shop) as page:
        page.press("/")
        page.type("penguins attic")
        page.press("Enter")
        page.wait("location.search.includes('penguins')")
        page.wait("document.readyState == 'complete'")
        page.press("j")
        page.wait("document.activeElement.closest('[data-item]')")
        page.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        page.press("c")
        page.wait("document.activeElement.closest('[data-item]').querySelector('.id').textContent == 'copied'")
        assert page.value("window.copied") == record_id
        page.press("Enter")
        page.wait(f"location.pathname == '/ui/record/{record_id}' && document.readyState == 'complete'")
        page.press("w")
        page.wait("document.activeElement.name == 'reason'")
        assert not page.barriers()
        page.type("They moved out.")
        page.press("Enter")
        page.wait_for("Marked as wrong")
        assert "because: They moved out." in page.text
        assert shop.status(record_id) == "inactive"
        page.press("u")
        page.wait_for("Undone.")
        assert shop.status(record_id) == "new"
        page.press("?")
        page.wait("document.querySelector('dialog').open")
        page.press("Escape")
        page.wait("!document.querySelector('dialog').open")


def test_what_waits_for_a_review_is_settled(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: side by side, and taken back."""
    before, after = shop.stored("The owner of the gym is Ann."), shop.stored("The owner of the gym is Bob.")
    with visiting(chromium, shop, "/review") as page:
        page.wait_for("The owner of the gym is Bob.")
        page.click(f"button[value={after}]")
        page.wait_for(
            f"“The owner of the gym is Ann.” ({before}) now ranks below “The owner of the gym is Bob.” ({after})."
        )
        assert shop.status(before) == "superseded"
        undo(page)
        assert shop.status(before) == "new"


def test_a_group_is_settled_without_a_pointer(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: Tab leads to each of its buttons in turn."""
    before, after = shop.stored("The pool is shut after 20 minutes."), shop.stored("The pool is shut after 50 minutes.")
    with visiting(chromium, shop, "/review") as page:
        page.wait(f"document.querySelector('button[value={after}]')")
        page.value("document.activeElement.blur()")
        for _ in range(400):
            if page.value("document.activeElement.value") == after:
                break
            page.press("Tab")
        page.press("Enter")
        page.wait_for(f"({before}) now ranks below “The pool is shut after 50 minutes.” ({after}).")
        assert shop.status(before) == "superseded"
        page.press("u")
        page.wait_for("Undone.")


def test_a_block_says_why_each_line_is_there(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: pinned from there, and asked for again with another budget."""
    record_id = shop.stored("The tram to the museum is number 14.")
    caller = shop.memory.caller()
    context = shop.memory.assemble_context(ContextRequest(query="tram to the museum", max_tokens=700), caller).report.id
    with visiting(chromium, shop, "/contexts") as page:
        page.click(f"a[href$='{context}']")
        page.wait_for("Left out")
        assert page.has("rect[class^=tone]")
        page.click(f"[id='{record_id}'] summary")
        page.wait_for("relevance")
        corners = "(({top, right, bottom, left}) => [top, right, bottom, left])"
        place = f"{corners}(document.querySelector('%s').getBoundingClientRect())"
        for width in (1_440, 1_024, 390):
            page.look(width)
            words, deeds = (page.value(place % f'[id="{record_id}"] > {each}') for each in (".text", ".deeds"))
            assert deeds[1] > deeds[3]
            assert words[1] <= deeds[3] or words[2] <= deeds[0], "the buttons cover no word"
        page.look()
        for action, done in (("pin", "Pinned"), ("excluded", "no longer given here")):
            page.click(f"form[action$='{record_id}/{action}'] button")
            page.wait_for(done)
            page.wait(f"document.querySelector(':target').id == '{record_id}'")
            undo(page)
            page.wait(f"location.pathname == '/ui/context/{context}'")
        page.press("g")
        page.fill("#goal", "tram to the museum")
        page.fill("#budget", "300")
        page.click("button", "Compare")
        page.wait_for("No more")
        assert "tokens instead of" in page.text


def test_what_would_be_given_is_asked_without_a_pointer(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: g opens the form, and Enter sends it."""
    shop.stored("The kiln of the pottery reaches 1,280 degrees.")
    given = len(shop.memory.records.contexts(shop.memory.caller(), 1_000))
    with visiting(chromium, shop, "/contexts") as page:
        page.press("g")
        page.wait("document.activeElement.id == 'goal'")
        page.type("how hot is the kiln")
        page.press("Enter")
        page.wait_for("1,280 degrees")
        page.tab_to("summary Exactly as the agent would read it")
        page.press("Enter")
        page.wait_for("<memory-context id=")
    assert len(shop.memory.records.contexts(shop.memory.caller(), 1_000)) == given


def test_work_is_live_and_a_task_is_ended(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: what an agent begins appears by itself."""
    tasks, caller = shop.memory.tasks, shop.memory.caller().in_session("live")
    with visiting(chromium, shop, "/work") as page:
        task = tasks.push(PushRequest(goal="Repair the carousel"), caller).current
        assert task
        page.click(f"a[href$='/task/{task.id}']")
        page.wait_for("Its records")
        page.click("summary", "End or block it")
        page.fill("textarea", "It turns again.")
        page.click("button", "Save")
        page.wait("document.querySelector('.prose, [role=alert]')")
        if page.has("button", "Do it anyway"):
            page.faults.clear()  # The browser logs that the answer is 409.
            page.click("button", "Do it anyway")
            page.wait_for("What came of it")
    assert {each.id: each.status for each in tasks.tree(caller)}[task.id] == "complete"


def test_a_compaction_is_undone_without_a_pointer(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: j leads to the session and to its compaction, Enter to what was replaced; z undoes it."""
    caller = shop.memory.caller().in_session("keys")
    shop.memory.feed(conversation(12), caller)
    log = shop.memory.logs.log(caller)
    shop.memory.compact(CompactRequest(window=2_500, force=True), caller)
    with visiting(chromium, shop, "/sessions") as page:
        page.wait_for("tokens in")
        page.press("j")
        page.wait("document.activeElement.textContent == 'keys'")
        page.press("Enter")
        page.wait_for("Compaction 1:")
        page.press("j")
        page.press("Enter")
        page.wait_for("Each leads to its originals.")
        page.open("/ui/session/keys")
        page.press("z")
        page.wait("document.activeElement.tagName == 'BUTTON'")
        page.press("Enter")
        page.wait_for("Undone: the log is as it was")
    assert shop.memory.logs.log(caller) == log


def test_the_owner_comes_by_the_link_and_has_the_memory_examined(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: from the command to signing out; and comes back by it as long as the command runs."""
    options = ("ui", "--no-browser", "--namespace", NAMESPACE, "--agent", "ann")
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with ForkedProcess(*options, env=environment_of(shop.server.data_dir), **pipes) as process:
        try:
            assert process.stdout
            link = process.stdout.readline().split()[-1]
            origin = link.partition("/ui")[0]
            with chromium.page(origin) as page:
                page.open(link)
                page.wait_for("Memories")
                page.click("a", "Health")
                page.wait_for("What it holds")
                page.press("c")
                page.wait_for("Database: sound")
                page.click(".who summary")
                page.click("button", "Sign out")
                page.wait_for("You have signed out.")
            with chromium.page(origin) as page:
                page.open(link)
                page.wait_for("Memories")
        finally:
            process.send_signal(signal.SIGINT)


def test_a_token_may_read_unless_more_is_chosen_and_its_secret_is_copied(chromium: Browser, tmp_path: Path) -> None:
    """U1.1, U1.2: by the button, which a browser without a clipboard does not show."""
    memory = memory_of(tmp_path / "data")
    options = ("ui", "--no-browser", "--namespace", NAMESPACE, "--agent", "ann")
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with ForkedProcess(*options, env=environment_of(tmp_path / "data"), **pipes) as process:
        try:
            assert process.stdout
            link = process.stdout.readline().split()[-1]
            with chromium.page(link.partition("/ui")[0]) as page:
                page.open(link)
                page.wait_for("Memories")
                page.open("/ui/access")
                page.press("a")
                for field, value in (("name", "phone"), ("agent", "phone")):
                    page.fill(f"#{field}", value)
                page.click("button", "Make the token")
                page.wait_for("Copy its secret now")
                secret = page.value("document.getElementById('secret').textContent")
                page.value("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
                page.click("button", "Copy")
                page.wait_for("Copied")
                assert page.value("window.copied") == secret
                assert not page.barriers()
        finally:
            process.send_signal(signal.SIGINT)
    token = memory.tokens.recognise(secret)
    assert token
    assert token.grant.right == "read"
    memory.close()


def test_hostile_words_are_shown_as_words(chromium: Browser, shop: Shop) -> None:
    """U1.1, S3.1: markup, scripts, templates, and signs that hide or turn text."""
    with visiting(chromium, shop, shop.paths["hostile"]) as page:
        shown = page.value("document.querySelector('#text').textContent")
        assert shown == HOSTILE.replace("\u202e", "⟦U+202E⟧").replace("\u202c", "⟦U+202C⟧").replace(
            "\u200b\u200b", "⟦U+200B × 2⟧"
        )


def test_what_belongs_together_stands_in_line_and_no_word_is_broken(chromium: Browser, shop: Shop) -> None:
    """U1.1: results below goals; commands and choices are whole; a screen shows many records, a telephone's too."""
    left = "document.querySelector({!r}).getBoundingClientRect().left"
    lines = "[...document.querySelectorAll({!r})].map((each) => [each.textContent, each.getClientRects().length])"
    with visiting(chromium, shop) as page:
        shown = "[...document.querySelectorAll('.record')].filter((each) => each.getBoundingClientRect().bottom <= {})"
        page.look(1_440, 900)
        assert page.value(f"{shown.format(900)}.length") >= 18
        page.look(390, 844)
        assert page.value("document.querySelector('.top').getBoundingClientRect().height") <= 844 / 12
        assert page.value(f"{shown.format(844)}.length") >= 6
        page.open("/ui/work")
        page.click("summary", "What came of it")
        goal, result = (left.format(f".tree li:has(> .fold) > {each}") for each in ("p > a", ".fold > .result"))
        assert page.value(f"{goal} - {result}") == 0
        page.look(390, 900)
        for path in ("/health", "/access"):
            page.open(f"/ui{path}")
            here = page.value(OPEN_SCREEN)
            assert here[0] >= 0, path
            assert here[1] <= 390, path
            broken = [text for text, number in page.value(lines.format("main code")) if number > 1]
            assert broken == [], path
        page.open("/ui/contexts/would")
        chosen = page.value(
            "(() => { const task = document.querySelector('#task'), text = document.createElement('span');"
            " text.textContent = task.options[task.selectedIndex].text; task.before(text);"
            " return [text.getBoundingClientRect().width, task.clientWidth]; })()"
        )
        assert chosen[0] + 40 <= chosen[1], "beside its arrow"


def test_every_screen_is_open_to_everybody(chromium: Browser, shop: Shop) -> None:
    """U1.1, U1.2: no rule of axe-core is broken; nothing hangs over the side, from a telephone to a wide screen."""
    with visiting(chromium, shop) as page:
        for name, path in shop.paths.items():
            page.look(1_440, 900, "light")
            page.open(f"/ui{path}")
            for width in WIDTHS:
                page.look(width, 900)
                wide = page.value("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 0, f"{name} at {width}: {wide} pixels too wide"
            page.value(_DROP_REPEATED)
            page.look(1_440, 900, "light")
            assert page.barriers() == [], name
            page.look(WIDTHS[0], 900, "dark")
            assert page.barriers((*OF_COLOURS, OF_A_TELEPHONE)) == [], f"{name}, dark, on a telephone"
        page.faults[:] = [each for each in page.faults if "/ui/nowhere" not in each]  # It is 404.

"""A person in front of a real browser finds, corrects and settles, with a mouse or with nothing but the keyboard."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_memory.domain.model.records import NewRecord
from tests.browser import Browser, Page
from tests.entrypoints.http.conftest import PATIENCE_SECONDS, environment_of, wait_until
from tests.entrypoints.page.conftest import Beside, memory_of
from tests.forked import ForkedProcess

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def filled(beside: Beside) -> Beside:
    caller = beside.memory.caller()
    facts = [NewRecord(text=f"Customer {number} pays after {number % 60} days.") for number in range(300)]
    beside.memory.remember(facts, caller, embed=False)
    beside.memory.remember([NewRecord(text="The print server listens on port 631.", tags=("a, b",))], caller)
    for load in (20, 35):
        beside.memory.remember([NewRecord(text=f"The limit of the invoice worker is {load} jobs at once.")], caller)
    return beside


@pytest.fixture
def page(chromium: Browser, filled: Beside) -> Iterator[Page]:
    """A page that has signed in."""
    with chromium.page(filled.server.address("")) as opened:
        opened.open("/ui/")
        opened.click("button", "Open the memory")
        ready(opened, "document.querySelector('[type=search]')")
        # The first visit was refused, as it had to be, and a browser says so.
        assert all("401" in fault for fault in opened.faults), opened.faults
        opened.faults.clear()
        yield opened


def ready(page: Page, condition: str) -> None:
    """Wait for a document, and for its script."""
    page.wait(f"({condition}) && document.readyState == 'complete'")


def id_of(beside: Beside, words: str) -> str:
    [found] = [each for each in beside.exported() if words in each and each.startswith('{"record"')]
    wanted = re.search(r'"id":"(r\w+)"', found)
    assert wanted
    return wanted[1]


def test_a_wrong_port_is_found_and_corrected_by_the_keyboard(page: Page, filled: Beside) -> None:
    page.press("/")
    page.type("which port has the print server")
    page.press("Enter")
    ready(page, "location.search.includes('print')")
    page.press("j")
    assert page.focused == "a The print server listens on port 631."
    page.press("Enter")
    ready(page, "location.pathname.includes('/record/')")
    page.press("e")
    ready(page, "document.activeElement?.id == 'text'")
    page.press("a", control=True)
    page.type("The print server listens on port 9631.")
    page.tab_to("button Save")
    page.press("Enter")
    ready(page, "location.search.includes('done=changed')")
    assert "9631" in page.text
    page.press("u")
    page.wait_for("Undone.")
    assert "9631" not in page.text.partition("Versions")[0]
    assert not page.barriers()


def test_a_conflict_is_settled_by_the_keyboard(page: Page) -> None:
    page.open("/ui/review")
    page.wait_for("These may contradict each other")
    page.press("1")
    ready(page, "location.search.includes('done=settled')")
    page.press("u")
    page.wait_for("These may contradict each other")


def test_the_palette_goes_to_screens_records_and_searches_by_the_keyboard(page: Page, filled: Beside) -> None:
    """U1.1: as a combobox, whose options are read out while the focus stays in the field."""
    page.press("k", control=True)
    page.wait("document.querySelectorAll('#palette [role=option]').length > 8")
    assert not page.barriers()
    page.type("health")
    page.wait("document.querySelectorAll('#palette [role=option]').length == 2")
    chosen = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert page.value(f"{chosen}.textContent") == "Health"
    page.press("ArrowDown")
    assert page.value(f"{chosen}.textContent") == "Open or search for “health”"
    page.press("ArrowUp")
    page.press("Enter")
    ready(page, "location.pathname == '/ui/health'")
    record_id = id_of(filled, "print server")
    page.press(":", shift=True)
    page.wait("document.getElementById('palette').open")
    page.type(record_id)
    page.press("Enter")
    ready(page, f"location.pathname == '/ui/record/{record_id}'")
    page.press(":", shift=True)
    page.wait("document.getElementById('palette').open")
    page.type("pin")
    page.wait("document.querySelector('#palette [role=option]')?.textContent == 'Pin'")
    page.press("Escape")
    page.wait("!document.getElementById('palette').open")
    page.press("k", control=True)
    page.type("print server")
    page.wait("document.getElementById('palette-record-0')?.textContent.includes('631')")
    assert page.value(f"{chosen}.id") == "palette-record-0", "no command fits, so Enter opens what was found first"
    assert not page.barriers()
    page.press("Enter")
    ready(page, "location.pathname.startsWith('/ui/record/')")
    page.click("a", "Go to…")
    page.wait("document.getElementById('palette').open")
    page.type("who pays late")
    page.press("Enter")
    ready(page, "location.search == '?q=who+pays+late'")


def test_the_keys_are_told_and_reach_what_they_name(page: Page, filled: Beside) -> None:
    page.open("/ui/?q=why+not+redis")
    page.press("r", "/")
    page.type("who pays")
    assert page.value("document.activeElement.value") == "who pays", "what was asked before is selected"
    page.open("/ui/")
    page.wait_for("shows the keys")
    page.press("?", shift=True)
    page.wait("document.getElementById('keys').open")
    assert "Go to the search field" in page.text
    page.press("Escape")
    page.open(f"/ui/record/{id_of(filled, 'print server')}")
    page.press("p")
    ready(page, "location.search.includes('done=pinned')")
    page.press("u")
    page.wait_for("Undone.")
    page.open("/ui/")
    page.press("Tab")
    assert page.focused == "a Skip to the content"


def test_a_form_is_saved_from_its_field_by_the_keyboard(page: Page, filled: Beside) -> None:
    """U1.2: Ctrl+Enter, which a field of several lines does not take for a line break; the dialog of keys names it."""
    record_id = id_of(filled, "print server")
    page.open(f"/ui/record/{record_id}/edit")
    page.value("document.getElementById('tags').focus()")
    page.type("upstairs")
    page.press("Enter", control=True)
    ready(page, f"location.pathname == '/ui/record/{record_id}' && location.search.includes('done=changed')")
    assert "upstairs" in filled.memory.inspect.visible(record_id, filled.memory.caller()).tags[0]
    page.press("?", shift=True)
    page.wait("document.getElementById('keys').open")
    assert "Save the form you are typing in" in page.text
    page.press("Escape")


def test_records_are_selected_and_retired_with_the_mouse(page: Page) -> None:
    page.open("/ui/?kind=fact")
    page.wait_for("match")
    assert not page.has(".bulk"), "what is done with a selection shows itself with it"
    page.click("input[type=checkbox]", "Select")
    page.wait_for("1 selected")
    page.press("j", "x")
    page.wait_for("2 selected")
    page.press("x")
    page.wait_for("1 selected")
    page.press("r")
    page.wait_for("Retired 1 record")
    page.click("button", "Undo")
    page.wait_for("Undone. As before the change: r")
    page.click("a", "More")
    page.wait("location.search.includes('before=')")
    assert page.has("a", "Customer")


def test_ui_opens_by_its_file_alone(chromium: Browser, tmp_path: Path) -> None:
    """The cookie is strict, and the visit begins in a file: the page must load again by itself."""
    memory_of(tmp_path / "data").close()
    browser, opened = tmp_path / "browser", tmp_path / "opened.html"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {tmp_path}/copied && mv {tmp_path}/copied {opened}\n')
    browser.chmod(0o755)
    environment = environment_of(tmp_path / "data") | {"BROWSER": f"{browser} %s"}
    process = ForkedProcess("ui", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        assert process.stdout
        link = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert link
        with chromium.page(link[0]) as page:
            file = opened.as_uri()
            wait_until(opened.exists)  # The link is printed before the browser is started.
            page.open(file)
            page.wait(f"location.href == '{link[0]}/ui/'")
            page.wait_for("Nothing is stored here yet.")
            page.wait("!document.getElementById('live').hidden")
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            page.wait_for("Not connected")
            assert page.has("p", "mcp-memory ui")
            page.faults.clear()
            page.faults = [fault for fault in page.faults if file not in fault]
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stderr.close()

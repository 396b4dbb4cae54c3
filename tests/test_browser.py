"""The browser of the tests does what a person does, and tells whatever should not happen."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from tests.browser import AXE, Browser

pytestmark = pytest.mark.long

FORM = """<!doctype html><html lang="en"><title>Form</title><main><h1>Form</h1>
<style>@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } }</style>
<form action="/done"><label>Name <input name="name" value="old"></label><button>Send</button></form>
<p style="margin-top: 2000px"><a href="/done?far=1">Far below</a></p></main>"""
FAULTY = """<!doctype html><html lang="en"><title>Faulty</title><script>alert(1)</script>
<img src="http://192.0.2.1/pixel.png"><input><script src="/faulty.js"></script>"""
FAULTY_SCRIPT = "console.error('all', 'wrong'); throw new Error('thrown');"


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = {"/": FORM, "/faulty": FAULTY, "/faulty.js": FAULTY_SCRIPT}.get(self.path, f"<title>{self.path}</title>")
        self.send_response(200 if self.path != "/favicon.ico" else 204)
        self.send_header("Content-Type", f"text/{'javascript' if self.path.endswith('.js') else 'html'}; charset=utf-8")
        if self.path == "/faulty":
            self.send_header("Content-Security-Policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Where the pages are."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_person_types_clicks_and_scrolls(chromium: Browser, origin: str) -> None:
    """U1.2: what is typed replaces what was there; what is far below is clicked all the same."""
    with chromium.page(origin) as page:
        page.open("/")
        page.fill("input", "Ünï")
        page.click("button", "Send")
        page.wait("location.search == '?name=%C3%9Cn%C3%AF'")
        page.open("/")
        page.click("a", "Far below")
        page.wait("location.search == '?far=1'")
        assert page.requested[0] == f"{origin}/"


def test_a_person_uses_nothing_but_the_keyboard(chromium: Browser, origin: str) -> None:
    """U1.2: Tab leads to each field in turn."""
    with chromium.page(origin) as page:
        page.open("/")
        page.tab_to("input Name")
        page.press("a", control=True)
        page.press("o", "k")
        page.tab_to("button Send")
        page.press("Enter")
        page.wait("location.search.startsWith('?name=')")
        assert page.value("location.search").endswith("ok")


def test_a_picture_is_as_wide_as_the_screen_and_as_high_as_the_page(
    chromium: Browser, origin: str, tmp_path: Path
) -> None:
    """U1.2: in both themes."""
    sizes: list[tuple[int, int]] = []
    with chromium.page(origin) as page:
        page.open("/")
        page.look(390, 800, "dark")
        assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(17, 17, 17)"
        for whole in (True, False):
            page.screenshot(tmp_path / "picture.png", whole=whole)
            header = (tmp_path / "picture.png").read_bytes()[16:24]
            sizes.append((int.from_bytes(header[:4]), int.from_bytes(header[4:])))
    assert sizes[0][0] == 390
    assert sizes[0][1] > 2_000
    assert sizes[1] == (390, 800)


def test_whatever_should_not_happen_is_told(chromium: Browser, origin: str) -> None:
    """U1.2: errors, violations of the policy, requests to others, and what keeps people out."""
    with chromium.page(origin) as page:
        page.open("/faulty")
        assert any("label" in each for each in page.barriers())
        told = "\n".join(page.faults)
        page.faults.clear()
    for fault in (
        "request elsewhere: http://192.0.2.1/pixel.png", "console: all wrong", "exception: Error: thrown", "log: ",
        "security policy: script-src-elem inline", "security policy: img-src http://192.0.2.1/pixel.png",
    ):  # fmt: skip
        assert fault in told


def test_a_fault_that_nobody_looked_at_fails_the_test(chromium: Browser, origin: str) -> None:
    """U1.2: also one of the last moment."""
    with pytest.raises(AssertionError, match="console: late"), chromium.page(origin) as page:
        page.value("console.error('late')")


def test_no_browser_outlives_who_started_it(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """U1.2: also where a signal leaves no time to end anything."""
    code = (
        "import pathlib, sys, time; from tests.browser import browsing\n"
        "with browsing(*map(pathlib.Path, sys.argv[1:])) as browser:\n"
        "    print(browser.send('SystemInfo.getProcessInfo')['processInfo'][0]['id'], flush=True); time.sleep(600)\n"
    )
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(request.config.cache.mkdir("clients"))],
        stdout=subprocess.PIPE,
        cwd=root,
    ) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        if not line:
            pytest.skip("no browser")
        browser = psutil.Process(int(line))
        os.kill(parent.pid, signal.SIGKILL)
    browser.wait(60)
    assert not browser.is_running()


def test_the_rules_of_accessibility_are_those_that_were_published() -> None:
    """U1.2: a changed file fails."""
    for line in (AXE.parent / "SHA256SUMS").read_text("utf-8").splitlines():
        checksum, name = line.split()
        assert hashlib.sha256((AXE.parent / name).read_bytes()).hexdigest() == checksum

"""Drives a real browser: Chromium without a screen, over the DevTools protocol, through two pipes.

A page notes whatever should not happen on it: errors, violations of its security policy, requests to anybody else.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from tests.clients.node_packages import Unavailable as NotInstalled
from tests.clients.node_packages import install
from tests.clients.programs import environment, running

LIMIT_SECONDS = 60.0
"""Each wait takes a fraction of a second; this tells a slow machine from a browser that hangs."""
LIFE_SECONDS = 3_600.0
PAUSE_SECONDS = 0.02
AXE = Path(__file__).parent / "axe" / "axe.min.js"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

OF_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe-core by which a scheme may fail alone."""

Scheme = Literal["light", "dark"]
Message = Mapping[str, Any]
_Value = TypeVar("_Value")

_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",  # Containers often give 64 MB.
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
)
# The protocol is spoken on the descriptors 3 and 4.
_LAUNCH = """\
import os, sys
for number, descriptor in enumerate(map(int, sys.argv[1:3]), 3):
    os.dup2(descriptor, number)
    os.close(descriptor)
os.execv(sys.argv[3], sys.argv[3:])
"""
_ABOVE = 10
"""Descriptors from here on are in the way of none that is set at launch."""
_KEYS: Mapping[str, tuple[int, str]] = {
    "Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), " ": (32, " "), "Backspace": (8, ""),
    "ArrowDown": (40, ""), "ArrowUp": (38, ""), "Home": (36, ""), "End": (35, ""),
}  # fmt: skip
"""The code of each key that has a name, and the text that it types."""
_SHIFT, _CONTROL = 8, 2
_REPORT_VIOLATIONS = """\
addEventListener("securitypolicyviolation", (event) =>
  violated(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
_FIND = """\
((selector, text) => {
  const said = (element) =>
    [element.textContent, element.value, element.getAttribute("aria-label")].map((each) => (each ?? "").trim());
  const shown = [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  return shown.find((each) => said(each).includes(text)) ??
    shown.find((each) => !text || said(each).some((words) => words.includes(text)));
})"""
_FOCUSED = """\
(({ tagName, labels, textContent }) =>
  `${tagName.toLowerCase()} ${(labels?.[0]?.textContent ?? textContent).trim()}`)(document.activeElement)"""
_PLACE = """\
((element) => {
  if (!element) return null;
  element.scrollIntoView({ block: "center", behavior: "instant" });
  const box = element.getClientRects()[0];
  if (!box) return null;
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const hit = document.elementFromPoint(x, y);
  return hit && (element.contains(hit) || hit.closest("label")?.control === element) ? [x, y] : null;
})"""


_REPLACED = ("context", "navigated")
"""Words of errors that say that the document is another one by now: "Execution context was destroyed."."""


class Unavailable(Exception):
    """There is no browser here, and why."""


class Gone(Exception):
    """The document that was asked is being replaced by another one."""


@contextlib.contextmanager
def browsing(folder: Path, lock_folder: Path) -> Generator[Browser]:
    """The browser that the lock file of tests/clients names, else an installed one; it ends with the block.

    Its profile is in `folder`, and it ends with this process, too.

    Raises:
        Unavailable: there is none, or none starts.
    """
    reasons: list[str] = []
    with contextlib.ExitStack() as stack:
        for number, find in enumerate((lambda: install(lock_folder).chromium(lock_folder), _installed)):
            own = folder / str(number)
            own.mkdir()
            try:
                browser = stack.enter_context(_started(*find(), own))
                break
            except (Unavailable, NotInstalled) as reason:
                reasons.append(str(reason))
        else:
            raise Unavailable("; ".join(reasons))
        yield browser


def _installed() -> tuple[Path, dict[str, str]]:
    program = shutil.which("chromium")
    if program is None:
        raise Unavailable("there is no chromium on the PATH (apt-get install chromium)")
    return Path(program), {}


@contextlib.contextmanager
def _started(program: Path, variables: Mapping[str, str], folder: Path) -> Generator[Browser]:
    (in_end, sending), (receiving, out_end) = map(_high, os.pipe()), map(_high, os.pipe())
    # The sandbox takes rights that a container's root has not.
    flags = [*_FLAGS, f"--user-data-dir={folder / 'profile'}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(in_end), str(out_end), str(program), *flags]
    command.append("about:blank")
    with running(
        command, environment(folder, **variables), folder, pass_fds=(in_end, out_end), limit=LIFE_SECONDS
    ) as process:
        os.close(in_end)
        os.close(out_end)
        browser = Browser(sending, receiving)
        try:
            browser.send("Browser.getVersion")
        except OSError as error:
            raise Unavailable(f"chromium does not start: {(folder / 'err.log').read_text('utf-8')[-300:]}") from error
        try:
            yield browser
        finally:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                browser.send("Browser.close")
                process.wait(LIMIT_SECONDS)  # What is left then is killed by its number.
            os.close(sending)
            os.close(receiving)


def _high(descriptor: int) -> int:
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    os.close(descriptor)
    return high


class Browser:
    """The connection to a browser. For one thread: what is told in between is noted while an answer is awaited."""

    def __init__(self, sending: int, receiving: int) -> None:
        self._sending, self._receiving = sending, receiving
        self._received = bytearray()
        self._number = 0
        self._pages: dict[str, Page] = {}

    def send(self, method: str, session: str = "", **parameters: object) -> dict[str, Any]:
        """Return the answer to a command. Raises Gone, and OSError where the browser has ended."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._sending, data) :]
        while (answer := self._next()).get("id") != number:
            self._tell(answer)
        if "error" in answer:
            why = str(answer["error"]["message"])
            raise (Gone if any(words in why for words in _REPLACED) else RuntimeError)(f"{method}: {why}")
        return answer["result"]

    @contextlib.contextmanager
    def page(self, origin: str) -> Generator[Page]:
        """A page in a profile of its own, that has visited nothing. At the end, none of its faults may be left."""
        profile = self.send("Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        try:
            target = self.send("Target.createTarget", url="about:blank", browserContextId=profile)["targetId"]
            session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            page = self._pages[session] = Page(self, session, origin)
            page.prepare()
            yield page
            page.value("1")  # What was told until now is noted.
            if page.faults:
                raise AssertionError("\n".join(page.faults))
        finally:
            self.send("Target.disposeBrowserContext", browserContextId=profile)

    def _tell(self, event: Message) -> None:
        if page := self._pages.get(event.get("sessionId", "")):
            page.note(event["method"], event["params"])

    def _next(self) -> Message:
        while (end := self._received.find(b"\0")) < 0:
            if not select.select([self._receiving], [], [], LIMIT_SECONDS)[0]:
                raise OSError("The browser answers no more.")
            read = os.read(self._receiving, 1 << 20)
            if not read:
                raise OSError("The browser has ended.")
            self._received += read
        message = bytes(self._received[:end])
        del self._received[: end + 1]
        return json.loads(message)


class Page:
    """A page as a person uses it. `faults` are what should not have happened, `requested` all addresses it asked."""

    def __init__(self, browser: Browser, session: str, origin: str) -> None:
        self._browser = browser
        self._session = session
        self.origin = origin
        self.faults: list[str] = []
        self.requested: list[str] = []

    def prepare(self) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send("Runtime.addBinding", name="violated")
        self._send("Page.addScriptToEvaluateOnNewDocument", source=_REPORT_VIOLATIONS)
        self.look()

    def note(self, event: str, told: Message) -> None:
        """Keep what an event tells of faults and requests."""
        if event == "Network.requestWillBeSent":
            address = str(told["request"]["url"])
            self.requested.append(address)
            if not address.startswith((f"{self.origin}/", "data:")):
                self.faults.append(f"request elsewhere: {address}")
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            said = (str(each.get("value", each.get("description", ""))) for each in told["args"])
            self.faults.append(f"console: {' '.join(said)}")
        elif event == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.faults.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif event == "Runtime.bindingCalled":
            self.faults.append(f"security policy: {told['payload']}")
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"log: {told['entry']['text']} {told['entry'].get('url', '')}")
        elif event == "Inspector.targetCrashed":
            raise OSError("The page has crashed.")

    def look(self, width: int = 1_024, height: int = 768, scheme: Scheme = "light") -> None:
        """Be as wide as a screen, and prefer a scheme; nothing moves, so that every picture is of an end."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._send("Emulation.setDeviceMetricsOverride", **size)
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        told = [{"name": name, "value": value} for name, value in features.items()]
        self._send("Emulation.setEmulatedMedia", features=told)

    def open(self, path: str) -> None:
        """Load an address of the server, or any whole one, and whatever belongs to it."""
        address = path if "://" in path else self.origin + path
        self._send("Page.navigate", url=address)
        self.wait("document.readyState == 'complete' && location.href != 'about:blank'")

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript comes to; a promise is awaited."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._until(lambda: [self._send("Runtime.evaluate", **asked)], f"an answer to {expression[:200]}")[0]
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true of a document with a body."""
        self._until(lambda: self.value(f"Boolean(document.body && ({condition}))"), condition)

    def wait_for(self, text: str) -> None:
        """Wait until the page shows a text, and its scripts are there."""
        self.wait(f"document.readyState == 'complete' && document.body.innerText.includes({json.dumps(text)})")

    @property
    def text(self) -> str:
        """The text that the page shows."""
        return self.value("document.body.innerText")

    def has(self, selector: str, text: str = "") -> bool:
        """True where a visible element is there, with that text in it."""
        return self.value(f"Boolean({_FIND}({json.dumps(selector)}, {json.dumps(text)}))")

    def click(self, selector: str, text: str = "") -> None:
        """Point at the visible element with that text, once it is there and nothing covers it, and click."""
        place = f"{_PLACE}({_FIND}({json.dumps(selector)}, {json.dumps(text)}))"
        x, y = self._until(lambda: self.value(place), f"{selector} {text!r} to click")
        for kind in ("mousePressed", "mouseReleased"):
            self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def fill(self, selector: str, text: str, label: str = "") -> None:
        """Click into a field, and type a text in place of its own."""
        self.click(selector, label)
        self.value("document.activeElement.select?.()")
        self.type(text)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self._send("Input.insertText", text=text)

    def press(self, *keys: str, shift: bool = False, control: bool = False) -> None:
        """Press keys one after the other, by their names or letters."""
        held = _SHIFT * shift + _CONTROL * control
        for key in keys:
            code, text = _KEYS.get(key, (ord(key.upper()) if len(key) == 1 else 0, key))
            told = {"key": key, "windowsVirtualKeyCode": code, "modifiers": held}
            typed = {"text": text} if text and not control else {}
            self._send("Input.dispatchKeyEvent", type="keyDown" if typed else "rawKeyDown", **told, **typed)
            self._send("Input.dispatchKeyEvent", type="keyUp", **told)

    @property
    def focused(self) -> str:
        """The element that has the focus, in words: its tag, and its label or text."""
        return self.value(_FOCUSED)

    def tab_to(self, wanted: str, most: int = 200) -> None:
        """Press Tab until the focus is on the element that `focused` tells by words that begin like this."""
        seen: list[str] = []
        while not (focused := self.focused).startswith(wanted):
            assert len(seen) < most, f"Tab does not lead to {wanted!r}, but to {seen}"
            seen.append(focused)
            self.press("Tab")

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page, all of it or what the screen shows."""
        size = self._send("Page.getLayoutMetrics")["cssContentSize" if whole else "cssLayoutViewport"]
        width, height = (size.get("width", size.get("clientWidth")), size.get("height", size.get("clientHeight")))
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        taken = self._send("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def barriers(self, rules: Sequence[str] = RULES) -> Sequence[str]:
        """Return what axe-core finds that keeps people out, each with the element, by rules or by tags of rules."""
        if not self.value("typeof axe == 'object'"):
            self.value(f"{AXE.read_text('utf-8')};1")
        options = json.dumps({"runOnly": rules, "resultTypes": ["violations"]})
        found = self.value(f"axe.run(document, {options}).then((result) => result.violations)")
        return [
            f"{each['id']}: {each['help']} {node['html'][:200]} {node['failureSummary']}"
            for each in found
            for node in each["nodes"]
        ]

    def _send(self, method: str, **parameters: object) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def _until(self, attempt: Callable[[], _Value], wanted: str) -> _Value:
        """Return the first answer that is something; a document that is just being replaced is asked again."""
        ends_at, told = time.monotonic() + LIMIT_SECONDS, "nothing"
        while time.monotonic() < ends_at:
            try:
                if answer := attempt():
                    return answer
            except Gone as error:
                told = str(error)
            time.sleep(PAUSE_SECONDS)
        shown = self._send("Runtime.evaluate", expression="location + '\\n' + document.body?.innerText")
        raise AssertionError(f"Waited for {wanted} in vain ({told}): {shown['result'].get('value')}\n{self.faults}")

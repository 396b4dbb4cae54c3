"""Takes the pictures of the page in its manual, from the running program over a memory that is made for them.

`just pictures` takes docs/page*.png; with `--all FOLDER` every screen, wide and on a telephone, light and dark.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import CompactRequest, ContextRequest, PopRequest, PushRequest
from mcp_memory.domain.model.scopes import Grant, Right
from mcp_memory.settings import load_settings
from tests.browser import Page, Scheme, browsing
from tests.services.sessions.conversations import session as conversation

ROOT = Path(__file__).resolve().parent.parent
STORY: Mapping[str, Any] = tomllib.loads((ROOT / "tools" / "page_story.toml").read_text("utf-8"))
NAMESPACE = "shop"
DAY = 86_400.0
WIDE, SMALL, TELEPHONE = (1_440, 900), (1_100, 720), (390, 844)
TOKENS: Sequence[tuple[str, str, Right]] = (
    ("laptop", "codex", "write"), ("build server", "ci", "read"), ("backup", "ops", "admin")
)  # fmt: skip


class _Clock:
    """A clock that the story sets; at the end it is the present."""

    def __init__(self) -> None:
        self.at = time.time() - 22 * DAY

    def __call__(self) -> float:
        self.at += 0.01
        return self.at


def make_memory(folder: Path) -> Mapping[str, str]:
    """Make the memory of the story in a folder; return the path of each screen by its name."""
    clock = _Clock()
    ids: dict[str, str] = {}
    settings = load_settings(data_dir=folder, namespace=NAMESPACE, agent="ines")
    with closing(open_app(settings, clock)) as memory:
        for told in STORY["items"]:
            clock.at = time.time() - told["days_ago"] * DAY
            ids[told.get("key", told["text"])] = _store(memory, told, ids)
        paths = _worked(memory, clock)
        for name, agent, right in TOKENS:
            memory.tokens.add(name, Grant(agent=agent, person="ines", namespaces=(NAMESPACE,), right=right), None)
        memory.reindex.embed_few(memory.caller().scopes, 1_000)
    record = ids["streaming"]
    return {
        "memories": "/", "search": "/?q=how+is+the+export+of+Northwind+read+by+Excel", "record": f"/record/{record}",
        "contexts": "/contexts", "work": "/work", "health": "/health", "review": "/review", "new": "/new",
        "sessions": "/sessions", "access": "/access", **paths,
    }  # fmt: skip


def _store(memory: App, told: Mapping[str, Any], ids: Mapping[str, str]) -> str:
    item = {name: value for name, value in told.items() if name not in ("days_ago", "agent", "key")}
    for name in ("supersedes", "depends_on"):
        if name in item:
            item[name] = (ids[item[name]],)
    item["text"] = item["text"].strip()
    item["tags"] = tuple(item.get("tags", ()))
    return memory.remember([NewRecord(**item)], replace(memory.caller(), agent=told["agent"]))[0].id


def _worked(memory: App, clock: _Clock) -> Mapping[str, str]:
    """Let the agents work, ask for contexts, and talk."""
    planned: dict[str, str] = {}
    for number, told in enumerate(STORY["work"]):
        clock.at = time.time() - (len(STORY["work"]) - number) * 900
        caller = replace(memory.caller(), agent=told["agent"]).in_session(told["agent"])
        move: dict[str, Any] = {name: value for name, value in told.items() if name not in ("agent", "enters")}
        if "plan" in move:
            move["plan"] = tuple(move["plan"])
        if "result" in told:
            memory.tasks.pop(PopRequest(**move), caller)
            continue
        wanted: dict[str, Any] = {"task_id": planned[told["enters"]]} if "enters" in told else move
        memory.tasks.push(PushRequest(**wanted), caller)
        planned |= {task.goal: task.id for task in memory.tasks.tree(caller)}
    clock.at = time.time() - 600
    context, agent = "", ""
    for told in STORY["questions"]:
        caller = replace(memory.caller(), agent=told["agent"]).in_session(told["agent"])
        asked = {name: value for name, value in told.items() if name != "agent"}
        context, agent = memory.assemble_context(ContextRequest(**asked), caller).report.id, told["agent"]
    talk = replace(memory.caller(), agent="claude-code", client="claude-code").in_session("invoices-export")
    memory.feed(conversation(12), talk)
    memory.compact(CompactRequest(window=4_000, force=True), talk)
    return {
        "context": f"/context/{context}?of={agent}",
        "task": f"/task/{planned['Write the export']}",
        "session": "/session/invoices-export?of=claude-code",
    }


@contextmanager
def _served(folder: Path) -> Generator[str]:
    """Serve the page as `mcp-memory ui` does; yield its link."""
    options = ["ui", "--no-browser", "--namespace", NAMESPACE, "--agent", "ines", "--data-dir", str(folder)]
    command = [sys.executable, "-m", "mcp_memory", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def _picture(page: Page, path: str, to: Path, size: tuple[int, int], scheme: Scheme, *, whole: bool = False) -> None:
    page.look(*size, scheme)
    page.open(f"/ui{path}")
    page.screenshot(to, whole=whole)


def take_manual(page: Page, paths: Mapping[str, str], folder: Path) -> None:
    """Take the pictures that docs/page.md shows."""
    _picture(page, paths["context"], folder / "page.png", WIDE, "light")
    _picture(page, paths["memories"], folder / "page-memories.png", WIDE, "light")
    _picture(page, paths["record"], folder / "page-record.png", WIDE, "dark")
    _picture(page, paths["health"], folder / "page-health.png", TELEPHONE, "dark")
    page.look(*SMALL, "light")
    page.open("/ui/access")
    page.press("a")
    page.screenshot(folder / "page-access.png", whole=False)
    page.open("/ui/work")
    page.press("k", control=True)
    page.wait("document.querySelectorAll('#palette [role=option]').length > 8")
    page.type("me")
    page.screenshot(folder / "page-palette.png", whole=False)


def _shrink(folder: Path) -> None:
    """Leave the pictures 256 colours, the thin signs' too: a third of their bytes, and no difference that is seen."""
    image: Any = import_module("PIL.Image")  # `just pictures` brings Pillow

    for file in folder.glob("page*.png"):
        with image.open(file) as picture:
            few = picture.convert("RGB").quantize(256, image.Quantize.MAXCOVERAGE, dither=image.Dither.NONE)
            few.save(file, optimize=True)


def take_all(page: Page, paths: Mapping[str, str], folder: Path, names: Sequence[str]) -> None:
    """Take every screen in both themes, wide and on a telephone; and its first part, as the screen shows it."""
    for name, path in paths.items():
        if names and name not in names:
            continue
        for width, size in (("wide", WIDE), ("phone", TELEPHONE)):
            for scheme in get_args(Scheme):
                _picture(page, path, folder / f"{name}-{width}-{scheme}.png", size, scheme)
        print(name, page.value("document.documentElement.scrollHeight"), "px on a telephone", flush=True)


def main() -> None:
    """Make the memory, serve it, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--browser", type=Path, metavar="FOLDER", help="where the browser's lock is kept")
    parser.add_argument("names", nargs="*", help="of screens; by default all of them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "browser").mkdir()
        paths = make_memory(folder / "data")
        lock = chosen.browser or folder
        with (
            _served(folder / "data") as link,
            browsing(folder / "browser", lock) as browser,
            browser.page(link.partition("/ui")[0]) as page,
        ):
            page.open(link)
            page.wait_for("Memories")
            if chosen.all:
                chosen.all.mkdir(parents=True, exist_ok=True)
                take_all(page, paths, chosen.all, chosen.names)
            else:
                take_manual(page, paths, ROOT / "docs")
                _shrink(ROOT / "docs")


if __name__ == "__main__":
    main()

"""What every test may ask for: a clock it can set, a real memory in its own folder, one loaded encoder per process."""

import gc
import itertools
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import psutil
import pytest
from coverage import Coverage
from hypothesis import HealthCheck, is_hypothesis_test, settings

BRANCHES = Coverage() if os.environ.get("COUNT_BRANCHES") else None
"""Counts the branches that this process takes; from here on, for those at the top of modules are taken on import."""
if BRANCHES is not None:
    BRANCHES.start()

from mcp_memory.app import App, open_app
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.settings import load_settings
from mcp_memory.stores.records import data_folder, database_sqlite
from tests.shared_loading import share

if TYPE_CHECKING:
    from mcp_memory.ports.text import Embedder, Vectors
    from tests.browser import Browser

# Containers often set it, and each of the hundred processes that tests start would compile its libraries again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Days are the user's: a test that is about another zone names it.
os.environ["TZ"] = "UTC"
if hasattr(time, "tzset"):
    time.tzset()

# An owner of a memory ends with its last client; see `pytest_sessionfinish`.
os.environ["MCP_MEMORY_IDLE_MINUTES"] = "0"

# The same examples on every machine and in every run; `--hypothesis-profile=search` looks for new ones.
settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
settings.register_profile("search", settings.get_profile("deterministic"), derandomize=False, max_examples=1000)
settings.load_profile("deterministic")


def fewer_examples(patch: pytest.MonkeyPatch, test: Callable[..., object]) -> None:
    """Take a third of a property's examples over a server: there statements differ, and all examples run over a file.

    Other tests are left as they are. It takes effect until the patch is undone.
    """
    if is_hypothesis_test(test):
        name = "_hypothesis_internal_use_settings"  # Those of one parameter have no public name.
        whole: settings = getattr(test, name)
        patch.setattr(test, name, settings(whole, max_examples=-(-whole.max_examples // 3)))


RUN = "TEST_RUN_OF_MEMORY"
"""Names the run in the environment of each process that it starts."""
os.environ.setdefault(RUN, str(os.getpid()))
OWNERS_END_SECONDS = 30.0
"""An owner ends soon after its last client, but finishes the calls at work."""
COMPLETE = {"domain", "services", "compaction", "retrieval", "summarizers"}
"""The folders whose tests have to take every branch of domain and services."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave unread, where the marked tests alone are asked for, each file that marks none: nearly all of them."""
    mark = config.option.markexpr
    is_asked_for = mark in ("long", "rounds") and collection_path.match("test_*.py")
    return (is_asked_for and f"mark.{mark}" not in collection_path.read_text("utf-8")) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is imported for all tests: not meanwhile, and not at any full collection later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those whose branches are counted come first, so that what a process computes once is computed while it counts."""
    items.sort(key=_is_uncounted)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count no branches meanwhile, unless they count: counting makes a test half as long again, or three times."""
    if BRANCHES is None or not _is_uncounted(item):
        return (yield)
    BRANCHES.stop()
    try:
        return (yield)
    finally:
        BRANCHES.start()


def _is_uncounted(item: pytest.Item) -> bool:
    """True for those outside COMPLETE, and for properties: their examples take the same branches again and again."""
    if item.get_closest_marker("uncounted"):
        return True
    return item.path.relative_to(Path(__file__).parent).parts[0] not in COMPLETE or _is_property(item)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep the branches; fail where a process that owns a test's memory outlives the tests."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if started := sys.modules.get("tests.postgres"):
        started.stop()
    if BRANCHES is not None:
        BRANCHES.stop()
        BRANCHES.save()
        if not is_worker:
            together = Coverage()
            together.combine()
            together.save()
    if is_worker or sys.platform != "linux":
        return
    until = time.monotonic() + OWNERS_END_SECONDS
    folder = str(cast("Any", session.config)._tmp_path_factory.getbasetemp())  # noqa: SLF001
    while (left := _owners_left(folder)) and time.monotonic() < until:
        time.sleep(0.2)
    if left:
        print(f"\nOwners of memories outlive the tests: {left}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _owners_left(folder: str) -> list[str]:
    """The sockets on which owners of memories listen: those in this run's folder, and those of processes of its own.

    Foreign clients start servers with another environment; other runs have their folders beside.
    """
    found: list[str] = []
    for each in psutil.net_connections("unix"):
        path = str(each.laddr)
        if path.endswith("/live/owner.sock") and each.pid and (path.startswith(f"{folder}/") or _is_ours(each.pid)):
            found.append(f"{path} of process {each.pid}")
    return found


def _is_ours(pid: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(pid).environ().get(RUN) == os.environ[RUN]
    return False


def _is_property(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)


NOON = 1_795_176_000.0
"""2026-11-20T12:00:00Z, a Friday."""


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        """Move on, or back where the sum is negative."""
        self.now += seconds + 3_600 * hours + 86_400 * days


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module", autouse=True)
def loaded_once() -> Iterator[None]:
    """Hundreds of memories of one test process share what each of them would load and read again."""
    with pytest.MonkeyPatch.context() as patch:
        share(patch.setattr)
        yield


_create_private = data_folder.create_private


@cache
def _migrated() -> bytes:
    """The file of an empty memory."""
    with TemporaryDirectory() as folder:
        database_sqlite.SqliteDatabase(Path(folder)).close()
        return (Path(folder) / data_folder.FILE_NAME).read_bytes()


def _create_migrated(folder: Path, path: Path) -> None:
    """Make the file as it is once it is created and migrated, whole from its first moment, where nothing is there."""
    if not folder.exists() or not any(folder.iterdir()):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder.parent) as whole, suppress(OSError):
            whole.write(_migrated())
            whole.flush()
            os.link(whole.name, path)
    _create_private(folder, path)


@pytest.fixture(autouse=True)
def migrated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new memory is a copy of one that was created and migrated, but where tests look at how that is done."""
    _migrated()
    monkeypatch.setattr(database_sqlite, "create_private", _create_migrated)


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """A real browser. Where there is none, its tests are skipped, and a line on the terminal says so."""
    from tests.browser import Unavailable, browsing
    from tests.clients.programs import say_aloud

    with ExitStack() as stack:
        try:
            browser = stack.enter_context(
                browsing(tmp_path_factory.mktemp("browser"), request.config.cache.mkdir("clients"))
            )
        except Unavailable as reason:
            say_aloud(request.config, f"NOT TESTED in a browser: {reason}")
            pytest.skip(str(reason))
        yield browser


class RepeatingEmbedder(MiniLMEmbedder):
    """The real embedder, which embeds a text once: the same texts come in many tests, and in many examples of one."""

    def __init__(self) -> None:
        super().__init__()
        self._embed = lru_cache(maxsize=20_000)(super().embed)

    def embed(self, text: str) -> "Vectors":
        vectors = self._embed(text)
        vectors.flags.writeable = False
        return vectors


@pytest.fixture(scope="session")
def embedder() -> MiniLMEmbedder:
    """The real one, its model loaded once for the process."""
    return RepeatingEmbedder()


@pytest.fixture
def open_memory(
    tmp_path: Path, clock: Clock, embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., App]]:
    """Open a real memory: `open_memory(folder="a", agent="b", session="c", …)`, settings by name, an `embedder`.

    Calls with the same folder share one store; `folder=None` makes a fresh one. All of them follow the test's clock.
    """
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    opened: list[App] = []
    fresh = itertools.count()

    def open_one(folder: str | None = "data", embedder: "Embedder" = embedder, **chosen: object) -> App:
        data_dir = tmp_path / (folder or f"fresh-{next(fresh)}")
        opened.append(open_app(load_settings(data_dir=data_dir, **{"namespace": "test", **chosen}), clock, embedder))
        return opened[-1]

    yield open_one
    for app in opened:
        app.close()


@pytest.fixture
def app(open_memory: Callable[..., App]) -> App:
    """An empty memory."""
    return open_memory()

"""Two filled memories, made once for each asker and copied for each test."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from tests.conftest import NOON, fewer_examples
from tests.scopes.planting import Found, plant
from tests.scopes.worlds import BEHIND_WALLS, LOCAL, WITH_TOKEN, Pair, Who, copied, opened

FILLED_AT = NOON + 3_600


@pytest.fixture(scope="session", autouse=True)
def no_file_of_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whoever runs the tests may have one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_MEMORY_CONFIG", str(tmp_path_factory.mktemp("none") / "none.toml"))
        yield


@pytest.fixture(
    scope="session",
    params=[LOCAL, WITH_TOKEN, pytest.param(BEHIND_WALLS, marks=pytest.mark.long)],
    ids=lambda who: who.name,
)
def who(request: pytest.FixtureRequest) -> Who:
    """Who asks."""
    return request.param


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLMEmbedder, who: Who) -> tuple[Path, Found]:
    """The folder of both memories, and what of the one is not in the other."""
    folder = tmp_path_factory.mktemp("filled")
    with opened(folder, embedder, NOON, who) as pair:
        found = plant(pair)
    return folder, found


@pytest.fixture
def found(filled: tuple[Path, Found]) -> Found:
    """What is in the one memory only."""
    return filled[1]


@pytest.fixture
def open_pair(
    filled: tuple[Path, Found],
    embedder: MiniLMEmbedder,
    who: Who,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., AbstractContextManager[Pair]]:
    """Copies of both memories for a `with` statement, opened with the settings that are named."""
    if who.has_walls:
        fewer_examples(monkeypatch, request.function)

    @contextmanager
    def open_copies(**chosen: object) -> Generator[Pair]:
        with TemporaryDirectory() as name:
            folder = copied(filled[0], Path(name))
            with opened(folder, embedder, FILLED_AT, who, **chosen) as pair:
                yield pair

    return open_copies


@pytest.fixture
def pair(open_pair: Callable[..., AbstractContextManager[Pair]]) -> Iterator[Pair]:
    """Copies for one test alone."""
    with open_pair() as copies:
        yield copies

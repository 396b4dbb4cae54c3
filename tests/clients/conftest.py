"""What the tests with foreign clients share: the clients, folders that only they use, and a server to speak to."""

from collections.abc import Iterator

import pytest

from tests.clients.node_packages import NodePackages, Unavailable, install
from tests.clients.programs import say_aloud
from tests.entrypoints.http.conftest import HttpServer


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest) -> NodePackages:
    """The clients. Where they cannot be had, their tests are skipped, and a line on the terminal says so."""
    try:
        return install(request.config.cache.mkdir("clients"))
    except Unavailable as reason:
        say_aloud(request.config, f"NOT TESTED with foreign clients: {reason}")
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def http_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server answers over HTTP; the tests of this folder share its memory."""
    server = HttpServer(tmp_path_factory.mktemp("served") / "data")
    yield server.url
    server.kill()

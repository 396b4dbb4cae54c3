"""Servers whose memory is broken under them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.conftest import ServerProcess


@pytest.fixture
def start() -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers that do not outlive the test."""
    started: list[ServerProcess] = []

    def start_one(*arguments: Any, **options: Any) -> ServerProcess:
        started.append(ServerProcess(*arguments, **options))
        return started[-1]

    yield start_one
    for server in started:
        server.stop()

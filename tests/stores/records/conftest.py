"""Here the database's creation and migration are tested."""

import pytest


@pytest.fixture(autouse=True)
def migrated_once() -> None:
    """Each memory is created and migrated by itself."""

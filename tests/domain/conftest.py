"""Values for tests of the domain: records and tasks with what matters to the test, and harmless rest."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.tasks import Task

NOON = 1_795_176_000.0


@pytest.fixture(autouse=True)
def loaded_once() -> None:
    """Every call reads its text: these tests are about the reading, and the time that it takes."""


@pytest.fixture
def make_record() -> Callable[..., Record]:
    def make(text: str = "The port is 5432.", **fields: Any) -> Record:
        tokens = len(text.split())
        harmless: dict[str, Any] = {
            "id": "r000001",
            "scope": "shared/test",
            "namespace": "test",
            "visibility": "shared",
            "agent": "default",
            "session_id": "s1",
            "task_id": None,
            "branch_id": None,
            "kind": "fact",
            "text": text,
            "summary": text,
            "micro": text,
            "text_tokens": tokens,
            "summary_tokens": tokens,
            "micro_tokens": tokens,
            "importance": 1.0,
            "confidence": None,
            "status": "new",
            "outcome": None,
            "pinned": False,
            "tags": (),
            "details": {},
            "speaker": None,
            "role": None,
            "tool": None,
            "call_id": None,
            "superseded_by": None,
            "created_at": NOON,
            "updated_at": NOON,
            "accessed_at": NOON,
            "occurred_at": NOON,
        }
        return Record(**{**harmless, **fields})

    return make


@pytest.fixture
def make_task() -> Callable[..., Task]:
    def make(task_id: str, parent: Task | None = None, **fields: Any) -> Task:
        harmless: dict[str, Any] = {
            "namespace": "test",
            "parent_id": parent.id if parent else None,
            "goal": f"goal of {task_id}",
            "status": "active",
            "depth": parent.depth + 1 if parent else 0,
            "agent": "default",
            "session_id": "s1",
            "created_at": NOON,
            "updated_at": NOON,
        }
        return Task(id=task_id, **{**harmless, **fields})

    return make

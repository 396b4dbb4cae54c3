"""The steps that SQLite takes for one call: in a small memory, and in one of five times its size."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.ids import RECORD, TASK
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.tasks import Task
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from mcp_memory.settings import load_settings
from mcp_memory.stores.records.database_sqlite import SqliteConnection
from tests.contract.conftest import BLANK

FEW, MANY, BOUND = 400, 2_000, 1.2
STEPS_AT_ONCE = 10
POOL = 8
"""Connections that a database keeps for reading."""
NEW = count(1)
"""Makes each question new: a context that was asked for before is given again."""
Call = Callable[[App, str], object]


def lived(app: App, size: int) -> str:
    """Store so many records, and twice as many tasks, which have ended in trees of two; return the id of a record."""
    caller = app.caller()
    vectors = np.random.default_rng(5).standard_normal((size, MiniLMEmbedder().dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    record = BLANK
    with app.records.write() as transaction:
        for number in range(size):
            root = replace(ended(transaction.next_id(TASK), number), namespace=caller.namespace, agent=caller.agent)
            transaction.add_task(root)
            transaction.add_task(replace(root, id=transaction.next_id(TASK), parent_id=root.id, depth=1))
            record = replace(
                BLANK, id=transaction.next_id(RECORD), text=f"w{number}x{number}", namespace=caller.namespace,
                scope=caller.scope("shared"), session_id=f"s{number // 10}", task_id=root.id,
                agent=caller.agent, occurred_at=BLANK.occurred_at + number,
            )  # fmt: skip
            transaction.insert(record, vectors[number, None], (), ())
    app.tasks.push(PushRequest(goal="Ship it", plan=("test", "publish")), caller)
    app.warm()
    app.remember([NewRecord(text=f"Bob likes tea number {number}.") for number in range(20)], caller)
    return record.id


def ended(task_id: str, number: int) -> Task:
    return Task(
        id=task_id, namespace="", parent_id=None, goal=f"goal {number}", status="complete", depth=0, agent="",
        session_id="s", created_at=1.0, updated_at=1.0,
    )  # fmt: skip


def steps_of(call: Call, app: App, record_id: str) -> int:
    """Count what SQLite does for a call, the least of three: connections read the schema anew after a checkpoint."""
    counted: list[None] = []
    call(app, record_id)  # Loads what a process keeps.
    database = app.records._database  # noqa: SLF001
    with ExitStack() as held:
        connections = [
            held.enter_context(database.write()),
            *(held.enter_context(database.read()) for _ in range(POOL)),
        ]
        for connection in connections:
            assert isinstance(connection, SqliteConnection)
            connection.set_progress_handler(lambda: counted.append(None), STEPS_AT_ONCE)
    taken: list[int] = []
    for _ in range(3):
        counted.clear()
        call(app, record_id)
        taken.append(len(counted))
    return min(taken)


def push_and_pop(app: App, record_id: str) -> object:
    app.tasks.push(PushRequest(goal="one more step", inherit=(record_id,)), app.caller())
    return app.tasks.pop(PopRequest(result="It is done."), app.caller())


def remember(app: App, record_id: str) -> object:
    text = f"Bob likes tea {app.records.revision()}."
    return app.remember([NewRecord(text=text, depends_on=(record_id,))], app.caller())


def assemble(app: App, _: str) -> object:
    return app.assemble_context(ContextRequest(query=f"Does Bob like tea {next(NEW)}?"), app.caller())


def begin(app: App, _: str) -> object:
    return app.assemble_context(ContextRequest(max_tokens=1_000 + next(NEW)), app.caller())


def revise(app: App, record_id: str) -> object:
    return app.revise(Revision(id=record_id, text=f"Changed at {app.records.revision()}."), app.caller())


CALLS: dict[str, Call] = {
    "push_task and pop_task": push_and_pop,
    "remember": remember,
    "recall": lambda app, _: app.recall(RecallRequest(query="Does Bob like tea?"), app.caller()),
    "assemble_context": assemble,
    "assemble_context without a question": begin,
    "revise": revise,
    "forget": lambda app, record_id: app.forget([record_id], "retire", app.caller()),
}


@pytest.fixture(scope="module")
def small_and_large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[tuple[App, str]]]:
    """Two memories with the id of a record of each."""
    with ExitStack() as opened:
        memories: list[tuple[App, str]] = []
        for size in (FEW, MANY):
            settings = load_settings(data_dir=tmp_path_factory.mktemp("lived"), namespace="touch")
            app = opened.enter_context(closing(open_app(settings, embedder=MiniLMEmbedder())))
            memories.append((app, lived(app, size)))
        yield memories


@pytest.mark.uncounted
@pytest.mark.parametrize("name", CALLS)
def test_a_call_reads_no_more_where_there_is_more_that_it_does_not_touch(
    name: str, small_and_large: Sequence[tuple[App, str]]
) -> None:
    """O2.2, L4.1: ended tasks, and the agent's own records, which have their vectors."""
    small, large = (steps_of(CALLS[name], app, record_id) for app, record_id in small_and_large)
    assert 0 < large <= BOUND * small

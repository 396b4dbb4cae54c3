"""Servers of one database keep in it what clients were shown: implements both ports of `shown`."""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mcp_memory.domain.memory.echoes import strip_recalled
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.words import normal_hash
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.shown import ShownContext, ShownItem
from mcp_memory.ports.text import Clock
from mcp_memory.stores.records.rows import report_from_json

if TYPE_CHECKING:
    from mcp_memory.stores.records.database_postgres import PostgresDatabase

KEPT_SECONDS = 86_400.0
TEXTS_KEPT, CONTEXTS_KEPT = 20_000, 256
"""Texts and contexts of an agent in a namespace, the latest."""
PRUNING = 0.01
"""The share of additions that delete what is older, or too much."""
_TOLD = ("tokens", "asked", "filters", "strategy", "revision")
_log = logging.getLogger(__name__)


class SqlShown:
    """Implements `ShownTexts` and `ShownContexts`; the ports document each method.

    Each addition is a statement of its own, which takes no lock of writes and waits for no disk.
    """

    def __init__(self, database: PostgresDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def keep(self, shown: ShownContext, caller: Caller) -> None:
        items = {each: asdict(item) for each, item in shown.items.items()}
        told = {"items": items, **{name: getattr(shown, name) for name in _TOLD}}
        vector = None if shown.vector is None else shown.vector.tobytes()
        row = {"id": shown.report.id, "shown": json.dumps(told), "vector": vector}
        self._add("shown_contexts", row, caller, CONTEXTS_KEPT)

    def shown(self, context_id: str, caller: Caller) -> ShownContext | None:
        rows = self._database.rows("shown_context", _whose(caller) | {"id": context_id})
        return _context(rows[0]) if rows else None

    def forget(self) -> None:
        self._database.alone("forget_shown_contexts", {})

    def note(self, caller: Caller, texts: Iterable[tuple[str, str]], revision: int) -> None:
        self._see(caller, ((each, normal_hash(strip_recalled(text)[0])) for each, text in texts), revision)

    def see(self, caller: Caller, record_ids: Iterable[str], revision: int) -> None:
        self._see(caller, ((each, "") for each in record_ids), revision)

    def seen(self, caller: Caller, record_ids: Collection[str]) -> Mapping[str, int]:
        asked = _whose(caller) | {"ids": json.dumps(list(record_ids))}
        return {row["record_id"]: row["revision"] for row in self._database.rows_amid("shown_since", asked)}

    def begun(self, caller: Caller) -> int:
        return self.seen(caller, [""]).get("", sys.maxsize)  # A session that was shown nothing begins now.

    def find(self, caller: Caller, texts: Collection[str]) -> Mapping[str, str]:
        digests = {text: normal_hash(text) for text in texts}
        asked = _whose(caller) | {"digests": json.dumps(sorted({*digests.values()}))}
        known = {row["digest"]: row["record_id"] for row in self._database.rows("shown_with", asked)}
        return {text: known[digest] for text, digest in digests.items() if digest in known}

    def _see(self, caller: Caller, shown: Iterable[tuple[str, str]], revision: int) -> None:
        if rows := sorted({*shown}):  # In one order, so that no two servers wait for each other.
            told = {"shown": json.dumps([("", ""), *rows]), "revision": revision}
            self._add("shown_texts", told, caller, TEXTS_KEPT)

    def _add(self, what: str, row: dict[str, Any], caller: Caller, most: int) -> None:
        whose, now = _whose(caller), self._clock()
        self._database.note(f"keep_{what}", [whose | row | {"at": now}], _warn, waits=True)
        if random.random() < PRUNING:
            pruned = whose | {"until": now - KEPT_SECONDS, "most": most}
            self._database.note(f"prune_{what}", [pruned], _warn, waits=True)


def _warn(error: StoreUnavailable) -> None:
    """Tell people: it is worth no failure, as the next answer is whole, like one after a long pause."""
    _log.warning("could not note what was shown: %s", type(error).__name__)


def _whose(caller: Caller) -> dict[str, Any]:
    return {"namespace": caller.namespace, "agent": caller.agent, "session_id": caller.session_id}


def _context(row: Any) -> ShownContext:
    import numpy as np

    told = json.loads(row["shown"])
    items = {each: ShownItem(**item | {"texts": tuple(item["texts"])}) for each, item in told["items"].items()}
    vector = None if row["vector"] is None else np.frombuffer(row["vector"], np.float32)
    report = report_from_json(row["report"])
    return ShownContext(report=report, text="", items=items, vector=vector, **{name: told[name] for name in _TOLD})

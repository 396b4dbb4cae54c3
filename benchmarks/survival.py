"""What of a session can still be read or found after its log was made shorter, beside simpler ways to make it so."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from benchmarks.session_talk import PROBE_KINDS, ProbeKind
from benchmarks.sessions import Probe
from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.session_log import Entry, EntryKind, SessionLog, in_order, role_of
from mcp_memory.domain.text.micro_and_summary import measured
from mcp_memory.ports.text import TokenCounter

EXACT: frozenset[ProbeKind] = frozenset({"value", "file"})
"""What a summary must never say in other words."""
_KINDS: Mapping[str, EntryKind] = {kind: kind for kind in get_args(EntryKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many."""

    found: int
    of: int

    @property
    def value(self) -> float:
        """In [0, 1]; 1 where there was nothing to find."""
        return self.found / self.of if self.of else 1.0

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} %" if self.of else ""


def as_log(records: Sequence[NewRecord], counter: TokenCounter) -> SessionLog:
    """The log that these records make, as a store would keep it."""
    return in_order(_entry(number, record, counter) for number, record in enumerate(records, start=1))


def found_by_kind(probes: Iterable[Probe], is_found: Callable[[Probe], bool]) -> Mapping[ProbeKind, Share]:
    """The share of the probes that were found, for each kind that there is."""
    found: dict[ProbeKind, list[bool]] = defaultdict(list)
    for probe in probes:
        found[probe.kind].append(is_found(probe))
    return {kind: Share(found=sum(found[kind]), of=len(found[kind])) for kind in PROBE_KINDS if kind in found}


def surviving(log: SessionLog, probes: Iterable[Probe]) -> Mapping[ProbeKind, Share]:
    """The share of the probes whose exact text stands in one of the log's entries."""
    text = "\0".join(entry.text for entry in log.entries)
    return found_by_kind(probes, lambda probe: probe.text in text)


def together(shares: Mapping[ProbeKind, Share], kinds: Iterable[ProbeKind] = PROBE_KINDS) -> Share:
    """The share over all of these kinds."""
    chosen = [shares[kind] for kind in kinds if kind in shares]
    return Share(found=sum(share.found for share in chosen), of=sum(share.of for share in chosen))


def newest(log: SessionLog, tokens: int) -> SessionLog:
    """The end of the log that fits into so many tokens: what dropping the oldest leaves. Exchanges stay whole."""
    kept, left = set[int](), tokens
    for place in range(len(log.entries) - 1, -1, -1):
        left -= log.entries[place].tokens
        if left < 0:
            break
        kept.add(place)
    return SessionLog(log.at(log.within(kept)))


def _entry(number: int, record: NewRecord, counter: TokenCounter) -> Entry:
    kind = _KINDS[record.kind]
    form = measured(record.text, counter.count, counter.truncate, kind=kind, outcome=record.outcome)
    record_id = make_id(RECORD, number)
    return Entry(
        id=record_id,
        kind=kind,
        role=role_of(kind, record.role),
        text=record.text,
        tokens=form.text_tokens,
        at=record.occurred_at or 0.0,
        covers=(record_id,),
        original_tokens=form.text_tokens,
        summary=form.summary,
        micro=form.micro,
        tool=record.tool,
        call_id=record.call_id,
        speaker=record.speaker,
        failed=record.outcome == "failure",
        pinned=record.pinned,
        importance=record.importance,
    )

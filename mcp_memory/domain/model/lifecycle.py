"""Defines the life of a record: a table of transitions per kind, and their causes. All others are refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf, tanh
from typing import Any, Literal

from mcp_memory.domain.model.field_marks import MergedBy, marked
from mcp_memory.domain.model.records import (
    ASKED_AS,
    LOG_KINDS,
    MAX_IMPORTANCE,
    OUT_OF_SEARCH,
    Counters,
    Details,
    Instant,
    Json,
    Kind,
    NewRecord,
    Outcome,
    Record,
    Status,
    with_validity,
)
from mcp_memory.errors import Conflict

Feedback = Literal["used", "ignored", "helpful", "wrong", "triggered", "false_positive", "succeeded", "failed"]
Moves = Mapping[Status, Mapping[Status, str]]
"""Maps each status to the statuses it may become, each with its cause."""

CORE_CONFIRMATIONS = 3  # sessions that met a fact again
DAY_SECONDS = 86_400.0
SUMMARIZED_DAYS, ARCHIVED_DAYS = 30, 90  # since an episode was stored or last opened
LEAST_USES = 5  # applications before a procedure is judged
EFFECTIVE_RATE, INEFFECTIVE_RATE, NEUTRAL_RATE = 0.6, 0.4, 0.5  # success rates of procedures
ESCALATING_TRIGGERS = 3  # triggers, each said to be right, after which a censor blocks
LEAST_TRIGGERS, TOLERATED_FALSE = 5, 0.5  # 3 false of 5 triggers retire a censor
USED_RANGE, USED_SCALE = 0.5, 5.0  # 10 uses more than ignores: importance × 1.48

NOTED: Status = "noted"
"""The status of what was read out of a session, until something confirms it; only its session sees it."""
NOTED_DAYS = 14  # until what nobody confirmed is retired, unless set otherwise
_PROMOTED = "noted_first"
"""The detail of a record that began as noted."""

PAST: tuple[Status, ...] = ("superseded", "inactive", "retired")
"""Statuses in which every life may end, and from which a record may be restored."""
_BY_HAND: frozenset[Status] = frozenset({"core", *PAST})
ARCHIVED, _BEFORE_ESCALATION = "archived", "action_before_escalation"
"""Details that outlive the status: that an episode was archived once, and a censor's action before its escalation."""
_KEPT_KINDS: frozenset[Kind] = frozenset({"identity", "censor", "result"})
"""Kinds that a record keeps whatever its text is stored as: a rule that becomes a fact would rule no more."""
_MERGED = marked(Record, MergedBy)
_CONFIRMED = "stored again, confirmed or used"
_STAGES: Mapping[Kind, Moves] = {
    "fact": {
        "new": {"confirmed": "met again in another session", "core": "3 confirmations, or by hand"},
        "confirmed": {"core": "3 confirmations, or by hand"},
        "core": {},
        NOTED: dict.fromkeys(("new", "confirmed", "core"), _CONFIRMED),
    },
    "episode": {
        "active": {"summarized": "30 days old"},
        "summarized": {"archived": "90 days old"},
        "archived": {},
        NOTED: {"active": _CONFIRMED},
    },
    "procedure": {
        "active": {
            "effective": "more than 60 % of 5 uses or more succeeded",
            "ineffective": "less than 40 % of 5 uses or more succeeded",
        },
        "effective": {"active": "60 % or less succeeded"},
        "ineffective": {"active": "40 % or more succeeded"},
    },
    "censor": {
        "created": {"active": "said to be right"},
        "active": {"escalated": "said to be right 3 times, blocks from now on"},
        "escalated": {},
    },
    "decision": {
        "recorded": {"pending": "outcome is pending", "reviewed": "outcome is known"},
        "pending": {"reviewed": "outcome is known"},
        "reviewed": {},
        NOTED: dict.fromkeys(("recorded", "pending", "reviewed"), _CONFIRMED),
    },
    "identity": {"active": {}},
    "result": {"active": {}},
    **{kind: {"active": {}} for kind in sorted(LOG_KINDS)},
}
"""The stages of each kind, in order."""
_RESTORED: Mapping[Kind, tuple[Status, ...]] = {
    "fact": ("new", "confirmed", "core"),
    "procedure": ("active", "effective", "ineffective"),
    "decision": ("recorded", "pending", "reviewed"),
    "episode": ("active", "archived"),
}
"""Stages beyond the first that a restored record's history may call for."""
_RETIRED: Mapping[Kind, str] = {"censor": "forgotten, or more than 50 % of 5 triggers or more were false"}


def _with_ends(kind: Kind) -> Moves:
    retired = _RETIRED.get(kind, "forgotten")
    ends: Mapping[Status, str] = {"superseded": "a newer one holds", "inactive": "proven wrong", "retired": retired}
    back = dict.fromkeys(_RESTORED.get(kind, tuple(_STAGES[kind])[:1]), "restored")
    return {
        **{stage: {**moves, **ends} for stage, moves in _STAGES[kind].items()},
        "superseded": {**back, "inactive": ends["inactive"], "retired": "forgotten"},
        "inactive": {**back, "superseded": "restored below a newer one", "retired": "forgotten"},
        "retired": {**back, "superseded": "restored below a newer one"},
    }


LIFECYCLES: Mapping[Kind, Moves] = {kind: _with_ends(kind) for kind in _STAGES}
"""Every transition that a record of each kind can make; docs/lifecycle.md shows them."""

_WEIGHTS: Mapping[Status, float] = {
    NOTED: 0.2,
    "core": 1.0, "effective": 1.0, "escalated": 1.0, "confirmed": 0.75, "reviewed": 0.75, "summarized": 0.4,
    "archived": 0.25, "ineffective": 0.1, "superseded": 0.1, "inactive": 0.0, "retired": 0.0,
}  # fmt: skip
_PLAIN_WEIGHT = 0.5
_COUNTED_BY: Mapping[Feedback, tuple[str, ...]] = {
    "used": ("used",),
    "helpful": ("used",),
    "ignored": ("ignored",),
    "triggered": ("activated",),
    "false_positive": ("false_positives",),
    "succeeded": ("activated", "succeeded"),
    "failed": ("activated",),
}


def stages(kind: Kind) -> tuple[Status, ...]:
    """Return the statuses of a record that holds, in their order."""
    return tuple(_STAGES[kind])


def stage_of(record: Record) -> Status:
    """Return the status as the table knows it; a status that the kind no longer has counts as the first."""
    return record.status if record.status in LIFECYCLES[record.kind] else stages(record.kind)[0]


def first_status(kind: Kind, outcome: Outcome | None = None) -> Status:
    """Return the status of a newly stored record; a decision may arrive with its outcome."""
    if kind == "decision" and outcome:
        return "pending" if outcome == "pending" else "reviewed"
    return stages(kind)[0]


def moved_to(record: Record, status: Status) -> Record:
    """Return the record in another status.

    An escalated censor blocks. One that returns to search gets its previous action back and starts counting again.


    Raises:
        Conflict: the table does not allow it for this record, or a decision has no outcome to be reviewed by.
    """
    if status == record.status:
        return record
    allowed = LIFECYCLES[record.kind][stage_of(record)]
    if status not in allowed:
        raise Conflict(
            f"A {record.kind} that is {record.status} cannot become {status}; it can be {', '.join(sorted(allowed))}."
        )
    if status == "reviewed" and record.outcome in (None, "pending"):
        raise Conflict(f"Decision {record.id} has no outcome; give one (success, partial or failure) to review it.")
    successor = record.superseded_by if status in PAST else None
    moved = replace(record, status=status, superseded_by=successor)
    if status == "escalated":
        return _escalated(moved)
    if status == "archived":
        return replace(moved, details={**moved.details, ARCHIVED: True})
    is_back = record.status in OUT_OF_SEARCH and status not in OUT_OF_SEARCH
    return _begun_anew(moved) if is_back and record.kind == "censor" else moved


def moved_by_hand(record: Record, status: Status) -> Record:
    """Return the record in a status set by hand: core, one that ends its life, restored, or no longer only noted.

    Raises:
        Conflict: only something else leads there: its outcome, feedback, being met again, or its age.
    """
    if status == record.status:
        return record
    if stage_of(record) == NOTED and status == first_status(record.kind):
        return promoted(record)
    back = _evident(record) if record.status in PAST else None
    allowed = [each for each in LIFECYCLES[record.kind][stage_of(record)] if each in _BY_HAND or each == back]
    if status not in allowed:
        raise Conflict(
            f"This {record.kind} is {record.status} and cannot be set to {status} by hand; it can be"
            f" {', '.join(sorted(allowed))}. Its outcome, feedback, being met again and its age do the rest."
        )
    return moved_to(record, status)


def restored(record: Record) -> Record:
    """Return a past record as valid again, in the stage that its history supports, with no successor."""
    return moved_to(record, _evident(record))


def refuse_hidden_successor(old: Record, newer: Record) -> None:
    """Raise Conflict where some readers of the old record cannot see the newer one, and would be left with neither."""
    is_seen_as_widely = newer.scope == old.scope or newer.visibility == "user"
    if not is_seen_as_widely or newer.branch_id not in (None, old.branch_id):
        where = "in an open branch" if is_seen_as_widely else newer.visibility
        raise Conflict(
            f"{old.id} is {old.visibility} and cannot be superseded by one that is {where}: others do not see that."
        )


def after_succession(record: Record, newer_id: str, now: Instant) -> Record:
    """Return the record replaced by a newer one. A record retired or proven wrong stays out of search."""
    status = "superseded" if record.is_live else record.status
    return replace(record, status=status, superseded_by=newer_id, updated_at=now)


def with_more_said(record: Record, item: NewRecord) -> Record:
    """Return the record with what the item adds: the higher importance, a pin, tags, questions, a validity, an outcome.

    A pending outcome never overrides an existing one.
    """
    asked_as = {ASKED_AS: item.details[ASKED_AS]} if ASKED_AS in item.details else {}
    more: dict[str, Any] = {
        name: merged.how(getattr(record, name), getattr(item, name)) for name, merged in _MERGED.items()
    }
    merged = replace(record, details={**record.details, **asked_as}, **more)
    outcome = record.outcome if item.outcome == "pending" else item.outcome
    return with_validity(after_outcome(merged, outcome or item.outcome), item)


def said_again(record: Record, item: NewRecord) -> Record:
    """Return a record whose text is stored again, with all that is now said about it, its kind and date too.

    A "fact" is no other kind: items have it that name none. Constraints, identities and results stay what they are.
    Of two values of a detail the later one holds; lists are joined.
    """
    kind = record.kind if item.kind == "fact" or record.kind in _KEPT_KINDS else item.kind
    if kind != record.kind:
        status = record.status if record.status in PAST else first_status(kind, record.outcome)
        record = replace(record, kind=kind, status=status)
    occurred_at = record.occurred_at if item.occurred_at is None else item.occurred_at
    details = _joined(record.details, item.details)
    return replace(with_more_said(record, item), details=details, occurred_at=occurred_at)


def _joined(kept: Details, said: Details) -> dict[str, Json]:
    """Return the details of both; texts of two lists of one name stand once, e.g. two reasons given at two times."""
    joined = {**kept, **said}
    for name in kept.keys() & said.keys():
        lists = [each for each in (kept[name], said[name]) if isinstance(each, (list, tuple))]
        if len(lists) == 2 and name != ASKED_AS:
            joined[name] = [*lists[0], *(each for each in lists[1] if each not in lists[0])]
    return joined


def promoted(record: Record) -> Record:
    """Return a noted record as confirmed, in the first stage of its kind; others unchanged."""
    if stage_of(record) != NOTED:
        return record
    return moved_to(replace(record, details={**record.details, _PROMOTED: True}), first_status(record.kind))


def after_confirmation(record: Record, now: Instant) -> Record:
    """Return the record met again in another session: facts rise to confirmed, and to core at three confirmations."""
    counters = replace(record.counters, confirmed=record.counters.confirmed + 1)
    met = replace(promoted(record), counters=counters, updated_at=now)
    return moved_to(met, _evident(met)) if stage_of(met) in ("new", "confirmed") else met


def after_outcome(record: Record, outcome: Outcome | None) -> Record:
    """Return the record with its outcome; a decision that holds becomes reviewed, or pending. None changes nothing.

    Raises:
        Conflict: a reviewed decision cannot wait for an outcome again.
    """
    told = replace(record, outcome=outcome or record.outcome)
    is_decided = outcome is not None and record.kind == "decision" and record.status not in PAST
    return moved_to(told, first_status("decision", outcome)) if is_decided else told


def after_feedback(record: Record, feedback: Feedback) -> Record:
    """Return the record after feedback on its use; `wrong` takes it out of search.

    Raises:
        Conflict: a retired record cannot be proven wrong.
    """
    if feedback == "wrong":
        return moved_to(record, "inactive")
    if feedback == "triggered" and record.kind == "procedure":
        feedback = "used"  # A shown procedure has no known result yet.
    counters = record.counters
    counted: dict[str, int] = {name: getattr(counters, name) + 1 for name in _COUNTED_BY[feedback]}
    told = promoted(record) if feedback in ("used", "helpful") else record
    return judged(replace(told, counters=replace(counters, **counted)))


def judged(record: Record) -> Record:
    """Return a procedure or censor in the stage that its counters call for, step by step; other kinds unchanged."""
    due = _JUDGES.get(record.kind)
    while due and record.status not in PAST and (status := due(record)) != stage_of(record):
        record = moved_to(record, status)
    return record


def aged(record: Record, now: Instant, noted_days: float = NOTED_DAYS, expired_days: float = inf) -> Record:
    """Return an episode in the stage that its age calls for; others unchanged.

    Its age is that of its storing or last opening: a history of years that is imported today is new here.
    What was noted or last changed so many days ago is retired, and so is what ceased to be true `expired_days` ago.
    """
    if record.valid_until is not None and record.holds and now - record.valid_until >= expired_days * DAY_SECONDS:
        return moved_to(record, "retired")
    if stage_of(record) == NOTED:
        since = max(record.created_at, record.updated_at)  # What an upgrade quarantined is older.
        return moved_to(record, "retired") if now - since >= noted_days * DAY_SECONDS else record
    days = (now - max(record.created_at, record.accessed_at)) / DAY_SECONDS
    if record.kind == "episode" and record.status == "active" and days >= SUMMARIZED_DAYS:
        record = moved_to(record, "summarized")
    if record.kind == "episode" and record.status == "summarized" and days >= ARCHIVED_DAYS:
        record = moved_to(record, "archived")
    return record


def _escalated(censor: Record) -> Record:
    """Set the censor to block, and keep its previous action where that differs."""
    before = censor.details.get("action", "warn")
    kept: Details = {} if before == "block" else {_BEFORE_ESCALATION: before}
    return replace(censor, details={**censor.details, **kept, "action": "block"})


def _begun_anew(censor: Record) -> Record:
    """Clear the counts that would judge the censor at once, and restore its action from before its escalation."""
    details = dict(censor.details)
    if _BEFORE_ESCALATION in details:
        details["action"] = details.pop(_BEFORE_ESCALATION)
    return replace(censor, counters=replace(censor.counters, activated=0, false_positives=0), details=details)


def success_rate(counters: Counters) -> float:
    """Return the share of applications that succeeded, in [0, 1]; one half where there were none."""
    return counters.succeeded / counters.activated if counters.activated else NEUTRAL_RATE


MAX_LEARNED = MAX_IMPORTANCE * (1 + USED_RANGE)


def learned_importance(record: Record) -> float:
    """Return the importance adjusted by use, in [0, `MAX_LEARNED`].

    The factor, in [0.5, 1.5], is 1 + tanh((used - ignored) / 5) / 2: one ignored undoes one used, and none is
    neutral.
    """
    counters = record.counters
    factor = 1 + USED_RANGE * tanh((counters.used - counters.ignored) / USED_SCALE)
    return record.importance * factor


def lifecycle_weight(record: Record) -> float:
    """Return the weight of a record's stage, in [0, 1].

    1 for core facts, effective procedures and escalated censors; 0.75 for confirmed facts and reviewed decisions;
    0.4 and 0.25 for summarized and archived episodes; 0.1 for ineffective procedures and superseded records; 0 for
    records out of search; 0.5 for everything else.
    """
    return _WEIGHTS.get(record.status, _PLAIN_WEIGHT)


def _evident(record: Record) -> Status:
    """Return the stage that a restored record's counters, details and outcome call for."""
    if record.kind == "fact":
        confirmed = record.counters.confirmed
        return "core" if confirmed >= CORE_CONFIRMATIONS else "confirmed" if confirmed else "new"
    if record.kind == "procedure":
        return _rated(record)
    if record.kind == "episode" and record.details.get(ARCHIVED):
        return "archived"
    return first_status(record.kind, record.outcome)


def _rated(record: Record) -> Status:
    rate = success_rate(record.counters)
    if record.counters.activated < LEAST_USES or INEFFECTIVE_RATE <= rate <= EFFECTIVE_RATE:
        return "active"
    return "effective" if rate > EFFECTIVE_RATE else "ineffective"


def _next_of_procedure(record: Record) -> Status:
    """Return the next stage; from effective to ineffective takes two steps."""
    rated = _rated(record)
    return rated if "active" in (rated, stage_of(record)) or rated == stage_of(record) else "active"


def denies(guardrail: Record, *, own: bool) -> bool:
    """Return True for a guardrail that denies a call of a tool that meets it; any other only warns.

    It has to be the agent's own or its person's, to block, and not to have been wrong more often than right.
    """
    counters = guardrail.counters
    is_doubted = counters.false_positives > counters.activated
    return own and guardrail.details.get("action") == "block" and not is_doubted


def _next_of_censor(record: Record) -> Status:
    """A censor reported false as often as it triggered counts all of its triggers as false."""
    counters, stage = record.counters, stage_of(record)
    triggers = max(counters.activated, counters.false_positives)
    if triggers >= LEAST_TRIGGERS and counters.false_positives > TOLERATED_FALSE * triggers:
        return "retired"
    if stage == "created" and triggers:
        return "active"
    return "escalated" if stage == "active" and counters.activated >= ESCALATING_TRIGGERS else stage


_JUDGES: Mapping[Kind, Callable[[Record], Status]] = {"procedure": _next_of_procedure, "censor": _next_of_censor}

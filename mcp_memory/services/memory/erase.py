"""Erases records together with what was made from them, and with quotations of them elsewhere.

What was made from a record goes as a whole, since nobody can tell which of its words another text reworded. A text that
only quotes it loses the sentences of the quotation.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.memory.erased_text import (
    Words,
    details_without,
    finding,
    is_all_erased,
    pieces_of,
    quoting,
    said,
    texts_of,
    words_of,
)
from mcp_memory.domain.model.records import LASTING_KINDS, Instant, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import CHECKPOINT_TAG, CLIENT_SUMMARY_TAG
from mcp_memory.domain.model.tasks import ERASED, Task
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import remeasured
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.text import TokenCounter
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.review.supersede import reinstate

MOST_QUOTING, MOST_LASTING = 12, 3
"""Records, and those of them that somebody stored to last, that have a piece, at most, for it to be a quotation.

Words that more have are a phrase of all of them: "The billing service and the mail service have a port".
"""
TELLING_LENGTH, TELLING_WORDS, MOST_LEFT = 6, 6, 5
"""A word of an erased text is telling where it is so long and at most so many records have it; so many are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Traces of erased records: `made` were made from them and went, `cut` (records, tasks) lost quotations.

    `left` are the first few that keep words of them, since more say these on their own.
    """

    made: tuple[str, ...]
    cut: tuple[str, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Records that an erasure takes along or cuts, before anything is changed.

    `made` go as a whole: of them `same` say nothing else, the others were made from what goes. `others` have a piece of
    the text, of which `kept` are as they will be without the quotation. `common` pieces are no quotation.
    """

    made: tuple[str, ...]
    same: frozenset[str]
    others: Sequence[Record]
    kept: Sequence[Record]
    pieces: Collection[Words]
    common: frozenset[Words]


def erase(
    found: Sequence[Record],
    caller: Caller,
    now: Instant,
    counter: TokenCounter,
    transaction: Transaction,
) -> Traces:
    """Erase the records with all traces, and keep the marks by which their text is recognised when it comes again."""
    reach = reach_of(found, caller, now, counter, transaction)
    gone = (*(record.id for record in found), *reach.made)
    for record_id in gone:
        _unlink(record_id, now, transaction)
    cut = [record for record in reach.kept if record.id not in gone]
    for record in cut:
        transaction.rewrite(record, found_entities(record.text, record.speaker, record.details))
    cut_out = quoting(reach.pieces)
    tasks = [_task_without(task, cut_out) for task in transaction.quoting_tasks(reach.pieces, caller.namespace)]
    for task in tasks:
        transaction.rewrite_task(task)
    stating = transaction.strip_quotations(reach.pieces, caller.own_scopes, caller.namespace)
    transaction.note_erased([record for record in found if not _is_account(record)], reach.common, now)
    transaction.erase(gone)
    still = finding(reach.common)
    left = [each.id for each in reach.others if each.id not in gone and any(still(text) for text in texts_of(each))]
    shorter = dict.fromkeys((*(each.id for each in (*cut, *tasks)), *(each for each in stating if each not in gone)))
    return Traces(made=reach.made, cut=tuple(shorter), left=tuple(left[:MOST_LEFT]))


def reach_of(
    found: Sequence[Record],
    caller: Caller,
    now: Instant,
    counter: TokenCounter,
    transaction: Transaction,
) -> Reach:
    """Return what goes with these records once they are erased, and what only loses a quotation. It changes nothing."""
    given = tuple(record.id for record in found)
    scopes = caller.own_scopes
    made = _made_from(given, scopes, transaction)
    own = [record for record in found if not _is_account(record)]
    pieces = {piece for record in own for text in texts_of(record) for piece in pieces_of(text)}
    others = [each for each in transaction.quoting(pieces, scopes) if each.id not in {*given, *made}]
    copies, said_often = _copies(own, others)
    common = _common(pieces, [each for each in others if each.id not in copies]) | said_often
    pieces -= common
    cut_out = quoting(pieces)
    kept, same = list[Record](), set[str]()
    for record in others:
        rest = None if record.id in copies else _without(record, cut_out, now, counter)
        if rest is None:
            same.add(record.id)
            made += [record.id, *_extracted_from((record.id,), transaction)]
        elif rest is not record:
            kept.append(rest)
    gone = tuple(dict.fromkeys((*given, *made)))[len(given) :]
    return Reach(made=gone, same=frozenset(same), others=others, kept=kept, pieces=pieces, common=common)


def left_of(found: Iterable[Record], records: MemoryReader, caller: Caller) -> tuple[str, ...]:
    """Return the few records that still have a rare word of erased ones: a person may look whether they tell of them.

    A word is rare that at most MOST_LEFT records have.
    """
    words = {word for record in found for word in words_of(record.text) if len(word) >= TELLING_LENGTH}
    telling = sorted((word for word in words if word.isascii()), key=lambda word: (word.isalpha(), -len(word), word))
    left: dict[str, None] = {}
    for word in telling[:TELLING_WORDS]:
        having = records.saying(word, caller.own_scopes, MOST_LEFT + 1)
        if len(having) <= MOST_LEFT:
            left.update(dict.fromkeys(having))
    return tuple(left)


def _is_account(record: Record) -> bool:
    """Return True for a text made of others' words: erasing it erases none of those, and it may be made again."""
    return record.kind == "summary" or CHECKPOINT_TAG in record.tags


def _copies(own: Sequence[Record], others: Sequence[Record]) -> tuple[frozenset[str], frozenset[Words]]:
    """Return the ids of others with the same text, which go as well, and the pieces of texts that many say.

    A line of a log that more than MOST_LASTING others say on their own is theirs: "Please commit this and push it."
    What was stored to last goes with all its copies.
    """
    lasting = {said(record.text) for record in own if record.kind in LASTING_KINDS}
    telling: dict[Words, set[str]] = {said(record.text): set() for record in own}
    for each in others:
        if said(each.text) in telling:
            telling[said(each.text)].add(each.id if each.kind in LASTING_KINDS else each.session_id)
    often = {text for text, tellers in telling.items() if len(tellers) > MOST_LASTING and text not in lasting}
    copies = frozenset(each.id for each in others if said(each.text) in telling.keys() - often)
    return copies, frozenset(piece for text in often for piece in pieces_of(" ".join(text)))


def _extracted_from(record_ids: Sequence[str], transaction: Transaction) -> list[str]:
    """Return what was extracted from the records, but no account of them and of others."""
    extracted = transaction.extracted_from(record_ids)
    return [each for each in extracted if (found := transaction.get(each)) and not _is_account(found)]


def _made_from(record_ids: Sequence[str], scopes: Iterable[str], transaction: Transaction) -> list[str]:
    """Return what was extracted from the records, summarises them, or tells the state of their sessions since."""
    accounts = transaction.accounts_of(record_ids, (CHECKPOINT_TAG, CLIENT_SUMMARY_TAG), scopes)
    made = [*transaction.extracted_from(record_ids), *accounts]
    further = transaction.extracted_from(made) if made else ()
    return [each for each in dict.fromkeys((*made, *further)) if each not in record_ids]


def _common(pieces: Collection[Words], others: Sequence[Record]) -> frozenset[Words]:
    """Return the pieces that are no quotation, since too many other records have them."""
    held_in = finding(pieces)
    held = [(each, frozenset[Words]().union(*map(held_in, texts_of(each)))) for each in others]
    counts = Counter(piece for _, found in held for piece in found)
    lasting = Counter(piece for each, found in held if _is_told(each) for piece in found)
    return frozenset(each for each in counts if counts[each] > MOST_QUOTING or lasting[each] > MOST_LASTING)


def _is_told(record: Record) -> bool:
    """Return True for what somebody stored to last, in their own words."""
    is_account = _is_account(record) or CLIENT_SUMMARY_TAG in record.tags
    return record.kind in LASTING_KINDS and not is_account


def _without(record: Record, cut: Callable[[str], str], now: Instant, counter: TokenCounter) -> Record | None:
    """Return the record without quotations, the same one where it has none; None where nothing is left of its text."""
    text, details = cut(record.text), details_without(record.details, cut)
    rest = replace(record, text=text, details=details, tags=tuple(tag for tag in record.tags if cut(tag) == tag))
    if is_all_erased(text):
        return None
    if rest == record:
        return record
    return remeasured(replace(rest, updated_at=now), counter.count, counter.truncate)


def _task_without(task: Task, cut: Callable[[str], str]) -> Task:
    return replace(
        task,
        goal=cut(task.goal),
        result=cut(task.result) if task.result else task.result,
        success_criteria=cut(task.success_criteria) if task.success_criteria else task.success_criteria,
        artifacts=tuple(cut(each) for each in task.artifacts),
    )


def _unlink(record_id: str, now: Instant, transaction: Transaction) -> None:
    """Revive what a summary had replaced; take the words of a task's result out of the task."""
    record = transaction.get(record_id)
    if record and record.kind == "summary":  # The log shows the one before again, so that has to hold as well.
        reinstate(record_id, now, transaction)
    if record and record.kind == "result":
        told = record.details.get("task")
        for task in transaction.tasks_near(record.namespace, [told]) if isinstance(told, str) else ():
            if task.id == told:
                cleared = replace(task, goal=ERASED, result=ERASED, success_criteria=None, artifacts=())
                transaction.update_task(cleared)

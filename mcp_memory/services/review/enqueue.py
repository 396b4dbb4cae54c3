"""The queue of groups to review: puts one in, unless it waits already or was found to need no look."""

from collections.abc import Iterable, Mapping, Sequence

from mcp_memory.domain.model.ids import REVIEW
from mcp_memory.domain.model.records import LOG_KINDS, Instant, Record
from mcp_memory.domain.model.reviews import MOST_RECORDS, Review, ReviewKind
from mcp_memory.domain.text.words import content_hash
from mcp_memory.ports.transaction import Transaction


def enqueue(
    kind: ReviewKind, record_ids: Sequence[str], why: str, at: Instant, transaction: Transaction
) -> Review | None:
    """Let a group of records wait for a review; return the group that waits with all of them.

    The first record gives the occasion: what was found unrelated to it, or both true as they read now, is left out. Of
    more than `MOST_RECORDS` the first count, and none of the log. A smaller group of the same kind is taken in. Returns
    None where fewer than two are left of several, or a single one was looked at.
    """
    first = record_ids[0]
    found = {each: record for each in record_ids if (record := transaction.get(each)) and record.holds}
    records = {each: record for each, record in found.items() if record.kind not in LOG_KINDS}
    known = transaction.reviews_of(list(records))
    looked_at = [review for review in known if first in review.record_ids and _stands(review, kind, records)]
    settled = {each for review in looked_at for each in _others(review, first)}
    left = [each for each in records if each not in settled][:MOST_RECORDS]
    if first not in left or len(left) < min(len(record_ids), 2):
        return None
    for review in known:
        if review.way is None and not changed_in(review, transaction):
            if set(review.record_ids) >= set(left):
                return review
            if review.kind == kind and not review.question and set(review.record_ids) < set(left):
                transaction.drop_review(review.id)
    hashes = tuple(content_hash(records[each].text) for each in left)
    review_id = transaction.next_id(REVIEW)
    review = Review(id=review_id, kind=kind, why=why, made_at=at, record_ids=tuple(left), hashes=hashes)
    transaction.put_review(review)
    return review


def changed_in(review: Review, transaction: Transaction) -> Sequence[str]:
    """Return the ids of the group's records that are gone, no longer hold, or say something else by now."""
    return [each for each, digest in _said(review) if not _says(transaction.get(each), digest)]


def _stands(review: Review, kind: ReviewKind, records: Mapping[str, Record]) -> bool:
    """Return True where a settlement spares its records another look: for ever, or while they say what they said."""
    if len(review.record_ids) == 1 and review.kind != kind:
        return False
    is_as_it_was = all(each not in records or _says(records[each], digest) for each, digest in _said(review))
    return review.way == "unrelated" or (review.way == "both-true" and is_as_it_was)


def _others(review: Review, first: str) -> Iterable[str]:
    """Return the records that it settled together with the first: that one itself where there was no other."""
    return [each for each in review.record_ids if each != first] or [first]


def _said(review: Review) -> Iterable[tuple[str, str]]:
    return zip(review.record_ids, review.hashes, strict=True)


def _says(record: Record | None, digest: str) -> bool:
    return record is not None and record.holds and content_hash(record.text) == digest

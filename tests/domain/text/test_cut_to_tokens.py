"""Texts that are cut: where they end, and what is not lost."""

import pytest

from mcp_memory.domain.text.cut_to_tokens import MAX_SENTENCE, Room
from mcp_memory.domain.text.micro_and_summary import short_forms
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

COUNTER = TiktokenCounter()
ROOM = Room(COUNTER.count, COUNTER.truncate)


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        (
            "The reports of last year are kept on the large disk in the cellar, the others lie on the small one",
            "The reports of last year are kept on the large disk in the cellar, the…",
        ),
        (
            "The reports of the last ten years may be deleted by all those who work in the archive except on Fridays",
            "… may be deleted by all those who work in the archive except on Fridays",
        ),
        (
            "Reports that were written by the people of the archive in the cellar of the house cannot be deleted",
            "Reports that were written by the people of the archive in the cellar … cannot be deleted",
        ),
        (
            "We keep the files of the whole archive on the large disk of the house because it is not expensive at all",
            "We keep the files of the whole archive on the large disk of the house because…",
        ),
    ],
)
def test_a_sentence_ends_early_but_not_without_its_denial(sentence: str, left: str) -> None:
    """C2.1: what it denies or excepts is told behind an ellipsis; a reason may go with what it denies."""
    assert ROOM.cut(sentence, 18) == left


@pytest.mark.parametrize(
    "sentence",
    [
        "The old archive can be found never" + "x1y2" * 40,
        "没" + "有" * 60,
        "The archive of the old house of the town by the sea in the far north of the land is not" + " so" * 60,
        "x1y2" * 400,
    ],
)
def test_a_denial_that_does_not_fit_is_cut_with_the_rest(sentence: str) -> None:
    """C2.1: the limit holds, and an ellipsis says that something is missing."""
    short = ROOM.cut(sentence, 18)
    assert "…" in short
    assert COUNTER.count(short) <= 18


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        (
            "All customer data may be shared with the analytics team and the partner agencies, excluding the medical "
            "records of European patients.",
            "excluding",
        ),
        (
            "Deploy every service to the production cluster automatically after the tests pass (apart from billing and "
            "payments service).",
            "apart from",
        ),
        (
            "Delete all stale accounts from the production database every night at two o'clock, barring those of "
            "administrators and auditors.",
            "barring",
        ),
        (
            "You can run the migration on all of the shards during the day in parallel, other than shard seven and the "
            "shard of the archive.",
            "other than",
        ),
        (
            "The nightly job cleans the whole bucket and its replicas in every region we run, save for the compliance "
            "folder of the bank.",
            "save for",
        ),
        (
            "We decided to use the new gateway for all of the traffic of our clients, as dont trust the old one, and "
            "the old one is stopped.",
            "dont",
        ),
        (
            "Restart the workers in every region after each change to the configuration, skipping the primary node of "
            "the database cluster.",
            "skipping",
        ),
        (
            "The feature is enabled for all of the users in every country of the union, being disabled in Germany and "
            "also in Austria.",
            "…",
        ),
        (
            "The API accepts uploads of any size from every client that we have signed, rejecting executables and "
            "archives of any sort.",
            "…",
        ),
        (
            "The new scheduler was rolled out to all of the clusters in the spring, which broke and was rolled back "
            "after two hours.",
            "…",
        ),
        (
            "He said the plan to migrate all of the services to Rust by the end of June was approved, which turned out "
            "to be false.",
            "…",
        ),
    ],
)
def test_exceptions_denials_and_reversals_do_not_go_unseen(sentence: str, kept: str) -> None:
    """C2.1: no form without them passes for the whole; a micro tells them or breaks off with an ellipsis."""
    micro = short_forms(sentence, COUNTER.count, COUNTER.truncate).micro
    assert kept in micro
    assert COUNTER.count(micro) <= 20


@pytest.mark.parametrize("unit", ["word ", " ", ",", "a, ", "(", " — a", "`", "never ", ", but", "、因为", "the "])
def test_no_sentence_takes_long_to_cut(unit: str) -> None:
    """C2.1: one that was read again and again for each of its signs would hang here."""
    for size in (MAX_SENTENCE, 20_000):
        assert COUNTER.count(ROOM.cut(f"The {unit * (size // len(unit))}"[:size], 18)) <= 18


def test_a_denial_of_a_later_sentence_stays_in_its_place() -> None:
    """C2.1: only the sentence that is cut is completed."""
    text = "We met on Monday. The old archive of the town lies by the sea, far in the north. It is not cold there."
    assert ROOM.cut(text, 18) == "We met on Monday. The old archive of the town lies by the sea…"


def test_a_cut_holds_its_limit_where_the_ellipsis_costs_more_behind_a_letter() -> None:
    """C2.1: a tokenizer may count two texts together as more than each alone."""

    def count(text: str) -> int:
        return len(text) + (text.endswith("…") and len(text) > 1)

    room = Room(count, lambda text, limit: text[:limit])
    assert room.cut("ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 9, 10) == "ABCDEFGH…"

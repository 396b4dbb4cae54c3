"""Sentences made shorter: what goes, what stays, and what is left when nothing more may go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.text.sentence_compression import (
    MAX_SENTENCE,
    condensed,
    condensed_line,
    shortened,
    shorter_forms,
)
from mcp_memory.domain.text.short_forms import short_forms
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

COUNTER = TiktokenCounter()


def within(sentence: str, tokens: int = 20) -> str | None:
    return condensed(sentence, lambda form: COUNTER.count(form) <= tokens)


def shortest(sentence: str) -> str:
    return [*shorter_forms(sentence)][-1]


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        # Openers and fillers
        ("However, the build really fails on Windows.", "The build fails on Windows."),
        ("Please note that the API is quite slow.", "The API is slow."),
        ("So we moved the queue to Redis.", "We moved the queue to Redis."),
        ("Note: `max_rows` is read once.", "`max_rows` is read once."),
        ("总之，缓存必须先清空。", "缓存必须先清空。"),
        # Brackets, dashes, asides
        ("The cache (a dictionary) is cleared at midnight.", "The cache is cleared at midnight."),
        ("The cache — a dictionary — is cleared at midnight.", "The cache is cleared at midnight."),
        ("The cache, which is old, is cleared at midnight.", "The cache is cleared at midnight."),
        ("We moved the queue to Redis, making it simpler.", "We moved the queue to Redis."),
        ("缓存（一个字典）每天清空一次。", "缓存每天清空一次。"),
        # Clauses at the end
        ("We moved the queue to Redis, the old one was slow.", "We moved the queue to Redis."),
        ("We moved the queue to Redis in order to save money.", "We moved the queue to Redis."),
        ("We use one bucket with a URL that expires soon.", "We use one bucket with a URL."),
        (
            "Seven tools are offered by the server: remember, recall and forget.",
            "Seven tools are offered by the server.",
        ),
        ("我们把连接池改为一百，服务恢复正常。", "我们把连接池改为一百。"),
        # Clauses at the start
        ("Because the old one was slow, we moved the queue to Redis.", "We moved the queue to Redis."),
        ("Although Redis is new to us, we moved the queue there.", "We moved the queue there."),
        ("リリースは成功しましたが、再構築に時間がかかりました。", "再構築に時間がかかりました。"),
    ],
)
def test_what_can_go_goes(sentence: str, left: str) -> None:
    """C2.1: a sentence remains, and it is as true as it was."""
    assert shortest(sentence) == left


@pytest.mark.parametrize(
    "sentence",
    [
        "Never push to main, unless the tests have passed before.",
        "Use the cache for reads, but never for writes of any kind.",
        "We deploy on any day of the week, only not on Fridays.",
        "When the report has many rows, the export stops early.",
        "If the lock is held, the writer waits for five seconds.",
        "The server is not very fast and not really safe.",
        "The index holds words, vectors, links and tasks.",
        "The attachments may lie in the database, on disk, or in object storage.",
        "It is called with `f(a, b` and nothing else.",
        "除了周五，不要发布任何版本。",
        "テストが通れば、リリースしてください。",
        "Too short, really.",
    ],
)
def test_what_limits_a_statement_or_belongs_to_a_list_stays(sentence: str) -> None:
    """C2.1: negations, conditions, exceptions and the members of a list."""
    assert shortest(sentence) == sentence


def test_numbers_names_and_reasons_go_last() -> None:
    """C2.1: only as much goes as must."""
    sentence = "We moved the queue to Redis (a server), because it took 40 ms, and it was easy."
    assert within(sentence, 40) == sentence
    assert within(sentence, 20) == "We moved the queue to Redis, because it took 40 ms, and it was easy."
    assert within(sentence, 16) == "We moved the queue to Redis, because it took 40 ms."
    assert within(sentence, 10) == "We moved the queue to Redis."
    assert within(sentence, 3) is None


def test_a_chain_without_end_is_not_followed_to_its_end() -> None:
    """C2.1: the work for one sentence is bounded; what is longer than a sentence is only ended early."""
    chain = "The disk of the archive is full" + "; the others are very old" * 16 + "."
    assert 12 < len(list(shorter_forms(chain))) <= 28
    assert list(shorter_forms(chain * 3)) == [chain * 3]
    assert shortened(chain * 3, 18, COUNTER.count, COUNTER.truncate).endswith("…")


def test_a_reason_may_go_with_its_denials() -> None:
    """C2.1: without it the statement holds as before; not so where more than the reason would go."""
    assert shortest("We keep files on disk because it is not expensive.") == "We keep files on disk."
    both = "We keep files on disk because it is cheap, but never the secrets."
    assert shortest(both) == both


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("2026-05-12T02:13:52Z ERROR lock timeout", "ERROR lock timeout"),
        ("src/cart/total.ts:14:7 - error TS2322: no", "error TS2322: no"),
        ("def f(a, b, c, d, e, f, g)", None),
    ],
)
def test_a_line_of_output_loses_when_and_where_it_was_written(line: str, left: str | None) -> None:
    """C2.1: nothing else of it can go."""
    assert condensed_line(line, lambda form: COUNTER.count(form) <= 9) == left


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        (
            "The reports of last year are kept on the large disk in the cellar, the others lie on the small one",
            "The reports of last year are kept on the large disk in the cellar…",
        ),
        (
            "The reports of the last ten years may be deleted by all those who work in the archive except on Fridays",
            "… may be deleted by all those who work in the archive except on Fridays",
        ),
        (
            "Reports that were written by the people of the archive in the cellar of the house cannot be deleted",
            "Reports that were written by the people of the archive in the cellar … cannot be deleted",
        ),
        ("The old archive can be found never" + "x1y2" * 40, None),
        ("没" + "有" * 60, None),
        ("The archive of the old house of the town by the sea in the far north of the land is not" + " so" * 60, None),
    ],
)
def test_at_last_a_sentence_ends_early_but_not_without_its_denial(sentence: str, left: str | None) -> None:
    """C2.1: what it denies or excepts is told behind an ellipsis."""
    short = shortened(sentence, 18, COUNTER.count, COUNTER.truncate)
    assert COUNTER.count(short) <= 18
    assert short == left or left is None


@given(st.text(alphabet="ab ,;:.—()`\"'A1不，。ません", max_size=80))
def test_each_form_is_shorter_than_the_one_before(sentence: str) -> None:
    """C2.1: whatever the text; so it ends."""
    lengths = [len(form) for form in shorter_forms(sentence)]
    assert lengths == sorted(lengths, reverse=True)


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
            "The build should use the shared cache of the whole team on every runner we own, while release builds are "
            "forbidden to touch it.",
            "…",
        ),
        (
            "Everyone on the team may merge to main after one review of the change, lacking permission to merge to "
            "release branches.",
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
    assert within(sentence) is None or kept in (within(sentence) or "")
    micro = short_forms(sentence, COUNTER.count, COUNTER.truncate).micro
    assert kept in micro
    assert COUNTER.count(micro) <= 20


@pytest.mark.parametrize(
    "end",
    [
        "besides the one in Oslo", "minus the oldest one", "banning all others", "lacking a lock of its own",
        "which we reverted in May", "which was denied by the board", "which is wrong", "which isnt so",
        "since it was fast, which was denied", "because it was fast, and was rolled back",
        "because it was fast; it is disabled now",
    ],
)  # fmt: skip
def test_no_cut_turns_a_statement_round(end: str) -> None:
    """C2.1: whatever the word; also behind a reason, which may go by itself."""
    sentence = f"We moved the queue to Redis, {end}."
    assert end in shortest(sentence)


@pytest.mark.parametrize(
    "unit",
    ["word ", " ", ",", "a,", "a, ", '"', "(", " (a", "`", "` ", "[1", " — a", " that a", "an a b ", "、因为", "the "],
)
def test_no_sentence_takes_long_to_shorten(unit: str) -> None:
    """C2.1: one that was read again and again for each of its signs would hang here."""
    for size in (MAX_SENTENCE, 20_000):
        sentence = f"The {unit * (size // len(unit))}"[:size]
        assert next(iter(shorter_forms(sentence))) == sentence
        assert condensed_line(sentence, lambda form: False) is None
        assert COUNTER.count(shortened(sentence, 18, COUNTER.count, COUNTER.truncate)) <= 18

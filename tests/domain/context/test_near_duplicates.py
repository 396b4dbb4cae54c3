"""Which records say the same, and which belong together."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.context.scoring import CLUSTER_COSINE, AlikePair, clustered, repeated
from mcp_memory.domain.model.records import Record

MakeRecord = Callable[..., Record]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We deploy on Tuesdays.", "we deploy  on tuesdays"),
        ("Never use port 5432.", "never use port 5432!"),
        ("我们使用 Postgres。", "我们使用 postgres"),
    ],
)
def test_of_two_that_say_the_same_the_better_one_stays(make_record: MakeRecord, one: str, other: str) -> None:
    """B1.3, R3: case, space and the punctuation behind words are no difference; the worse names the better."""
    records = [
        make_record(one, id="r000001"),
        make_record(other, id="r000002", kind="decision"),
        make_record(one, id="r000003"),
    ]
    assert repeated(records) == {"r000002": "r000001", "r000003": "r000001"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The port is 5432.", "The port is 5433."),
        ("Deploys are on Fridays.", "Deploys are not on Fridays."),
        ("The cache is cleared on deploys.", "The cache isn't cleared on deploys."),
        ("Use 10 workers, then 20.", "Use 20 workers, then 10."),
        ("Use Python 3.2.", "Use Python 2.3."),
        ("The offset is 5 hours.", "The offset is -5 hours."),
        ("We increase the timeout.", "We decrease the timeout."),
        ("We merge before tagging.", "We merge after tagging."),
        ("Billing is on the primary, mail on the secondary.", "Mail is on the primary, billing on the secondary."),
        ("We moved from Tuesday to Thursday.", "We moved from Thursday to Tuesday."),
    ],
)
def test_what_differs_in_a_word_is_never_a_repetition(make_record: MakeRecord, one: str, other: str) -> None:
    """B1.3, R8: however alike they are in meaning."""
    assert repeated([make_record(one, id="r000001"), make_record(other, id="r000002")]) == {}


def test_the_same_words_of_somebody_else_or_with_another_end_are_not_the_same(make_record: MakeRecord) -> None:
    """B1.3, T1.3, W8.1: a failure is not told by a success; a line of the log is, by any stored record of its words."""
    said, asked = "We cached the whole file.", "Did we cache it?"
    records = [
        make_record(said, id="r000001", kind="episode", outcome="failure"),
        make_record(said, id="r000002", kind="episode", outcome="success"),
        make_record(said, id="r000003", kind="message"),
        make_record(asked, id="r000004", kind="message", speaker="Ada"),
        make_record(asked, id="r000005", kind="message", speaker="Bo"),
        make_record("run", id="r000006", kind="event", details={"command": "pytest a"}),
        make_record("run", id="r000007", kind="event", details={"command": "pytest b"}),
        make_record("run", id="r000008", kind="event", details={"command": "pytest b"}),
    ]
    assert repeated(records) == {"r000003": "r000001", "r000008": "r000007"}


PAIRS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0, 1)).filter(lambda pair: pair[0] < pair[1]), max_size=20
).map(lambda pairs: [(f"r{a}", f"r{b}", cosine) for a, b, cosine in pairs])


def test_records_of_one_matter_stand_side_by_side_by_their_best() -> None:
    """A6.3: the order of the best of each cluster, and within it, stays."""
    ids = ["deploy1", "port1", "deploy2", "lunch", "port2", "deploy3"]
    pairs = [("deploy1", "deploy2", 0.8), ("deploy1", "deploy3", 0.6), ("port1", "port2", 0.9), ("lunch", "port1", 0.2)]
    assert clustered(ids, pairs) == ["deploy1", "deploy2", "deploy3", "port1", "port2", "lunch"]
    assert clustered(ids, []) == ids


@given(PAIRS)
def test_clustering_loses_nothing_and_keeps_the_best_first(pairs: list[AlikePair]) -> None:
    """A6.3: each record that is not alike to one above it stands where a new cluster begins."""
    ids = [f"r{n}" for n in range(8)]
    order = clustered(ids, pairs)
    assert sorted(order) == ids
    assert order[0] == ids[0]
    near = {frozenset(pair[:2]) for pair in pairs if pair[2] >= CLUSTER_COSINE}
    leaders = [each for at, each in enumerate(order) if not any(frozenset((each, e)) in near for e in order[:at])]
    assert leaders == sorted(leaders)

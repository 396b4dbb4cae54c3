"""Threads: what is the key of an issue, what takes back what, and where a newest state stands."""

from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.retrieval.issue_threads import is_exact, is_issue, takes_back, with_newest

OLD = "Commit 9fdb47ca: New encode/decode_path_component functions\n\nASGI cannot tell / from %2F."


def test_an_issue_is_told_from_a_standard_and_a_name() -> None:
    """W5.2."""
    issues = ("#42", "rust#93628", "rust-lang/rfcs#2836", "proj-142", "cve-2024-3094")
    assert all(is_issue(key) and is_exact(key) for key in issues)
    assert not any(map(is_issue, ("utf-8", "sha-256", "iso-8601", "kafka", "c#", "max_rows", "us-east-1")))
    assert all(map(is_exact, ("max_rows", "src/app.py", "datasette.allowed")))
    assert not any(map(is_exact, ("kafka", "utf-8", "fcp report")))


def test_a_revert_quotes_the_title_of_what_it_takes_back() -> None:
    """W5.2: as git writes it; another title, a report about reverting, or a short word is none."""
    revert = 'Revert "New encode/decode_path_component functions"\n\nThis reverts commit 9fdb47ca952b.'
    assert takes_back(revert, OLD)
    assert not takes_back(revert, "We encode paths.")
    assert not takes_back(OLD, revert)
    assert not takes_back("We should revert the new encode/decode_path_component functions.", OLD)
    assert not takes_back('Revert "ASGI"', OLD)
    assert not takes_back(f'Revert "{revert.splitlines()[0]}"', OLD)


def test_a_newest_state_stands_beside_the_best_record_of_its_thread() -> None:
    """W5.2: behind it, before it where it is as good an answer or reverts it; nothing else changes its place."""
    hits = [Fused(id=name, score=score) for name, score in (("a", 0.8), ("b", 0.6), ("c", 0.5), ("d", 0.1))]

    def order(newest: dict[str, str], reverts: dict[str, str]) -> list[tuple[str, float]]:
        return [(hit.id, hit.score) for hit in with_newest(hits[:3], hits, newest, reverts)]

    assert order({}, {}) == [("a", 0.8), ("b", 0.6), ("c", 0.5)]
    assert order({"a": "c"}, {}) == [("a", 0.8), ("c", 0.8), ("b", 0.6)]
    assert order({}, {"b": "d"}) == [("a", 0.8), ("d", 0.6), ("b", 0.6), ("c", 0.5)]
    assert order({}, {"c": "a"}) == [("a", 0.8), ("b", 0.6), ("c", 0.5)]  # It stands before it anyway.
    near = [Fused(id="a", score=0.8), Fused(id="b", score=0.77)]
    assert [hit.id for hit in with_newest(near, near, {"a": "b"}, {})] == ["b", "a"]

"""Spreading activation over small graphs written down as lists of edges."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.graph import DECAY, HOPS, spread

Edges = Mapping[tuple[str, str], float]


def over(edges: Edges, calls: list[str] | None = None) -> Callable[[str], Mapping[str, float]]:
    """The neighbours of each node; `calls` collects the nodes that were asked for theirs."""

    def neighbours(node: str) -> Mapping[str, float]:
        if calls is not None:
            calls.append(node)
        there = {b: weight for (a, b), weight in edges.items() if a == node}
        return there | {a: weight for (a, b), weight in edges.items() if b == node}

    return neighbours


def plain(*pairs: str) -> Edges:
    return {(pair[0], pair[1]): 1.0 for pair in pairs}


def test_each_step_and_each_fork_halves_and_shares() -> None:
    """R7: a node gives DECAY of what it has, in equal parts where the edges weigh the same."""
    reached = spread({"a": 1.0}, over(plain("ab", "ac", "bd")))
    assert reached["b"] == reached["c"] == DECAY / 2
    # b has two neighbours, and what would go back to a is lost.
    assert reached["d"] == DECAY * DECAY / 4


def test_heavier_relations_carry_more() -> None:
    """B4.3: in proportion to their weights."""
    reached = spread({"a": 1.0}, over({("a", "b"): 0.75, ("a", "c"): 0.25}))
    assert reached["b"] == 3 * reached["c"]


def test_what_comes_from_several_sides_adds_up() -> None:
    """R7."""
    reached = spread({"a": 0.25, "b": 0.75}, over(plain("ax", "bx", "ay", "by", "bz")))
    assert reached["x"] == pytest.approx(DECAY * (0.25 / 2 + 0.75 / 3))


def test_activation_ends_after_some_steps() -> None:
    """B3.4: breadth first to a depth limit."""
    chain = plain("ab", "bc", "cd", "de")
    assert set(spread({"a": 1.0}, over(chain))) == set("abcde"[: HOPS + 1])
    assert set(spread({"a": 1.0}, over(chain), hops=1)) == {"a", "b"}
    assert set(spread({"a": 1.0}, over(chain), hops=0)) == {"a"}


def test_the_work_is_bounded_and_the_most_activated_go_first() -> None:
    """B3.4: a node with many neighbours is finished, then nothing more is looked at."""
    edges = plain("ab", *(f"b{i}" for i in range(9)), *(f"c{i}" for i in range(9)))
    calls: list[str] = []
    spread({"c": 0.4, "b": 0.6}, over(edges, calls), max_touched=5)
    assert calls == ["b"]


def test_nothing_comes_of_nothing() -> None:
    """R7: no seed, no activation; a seed without neighbours is alone."""
    assert spread({}, over(plain("ab"))) == {}
    assert set(spread({"x": 1.0}, over(plain("ab")))) == {"x"}


nodes = st.sampled_from("abcdefgh")
weights = st.floats(0.01, 1.0)


@given(
    edges=st.dictionaries(st.tuples(nodes, nodes).filter(lambda e: e[0] < e[1]), weights),
    seeds=st.dictionaries(nodes, weights, min_size=1),
    shuffle=st.randoms(use_true_random=False),
)
def test_every_node_once_in_any_order_and_never_more_than_there_was(
    edges: dict[tuple[str, str], float], seeds: dict[str, float], shuffle: st.DataObject
) -> None:
    """B3.4, R7: deterministic to the bit, whatever the order of the edges; each step has at most half of the last."""
    total = sum(seeds.values())
    start = {node: weight / total for node, weight in seeds.items()}
    calls: list[str] = []
    reached = spread(start, over(edges, calls))
    assert len(calls) == len(set(calls))
    mixed = list(edges.items())
    shuffle.shuffle(mixed)  # pyrefly: ignore[missing-attribute] - a Random
    assert spread(dict(reversed(start.items())), over(dict(mixed))) == reached
    assert all(0 < share <= 1 + 1e-9 for share in reached.values())
    arrived = sum(share for node, share in reached.items() if node not in start)
    assert arrived <= DECAY + DECAY**2 + DECAY**3 + 1e-9

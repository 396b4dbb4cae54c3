"""Filling a block that answers a question."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.context.budget import CHOSEN, OTHERS, Form, Item, LazyForms, Placed
from mcp_memory.domain.context.filling import (
    ANSWERS,
    BEST,
    DOUBTED_TOKENS,
    FIRST_TOKENS,
    NEAREST,
    OF_CONSTRAINTS,
    SURE_OF,
    fill,
    least_chance,
)

SHARES = (ANSWERS, ANSWERS, ANSWERS, CHOSEN, NEAREST, "identity", "censor", "root", "focus", "entities", "approach")


def item(name: str, *tokens: int, share: str = ANSWERS, relevance: float = 1.0, required: bool = False) -> Item:
    """An item with one form for each number of tokens, fullest first."""
    forms = tuple(Form(detail="full", text=f"{name}{n}", tokens=cost) for n, cost in enumerate(tokens))
    return Item(
        id=name, kind="fact", source="recall", section="Known Information", share=share, score=1.0, forms=forms,
        relevance=relevance, required=required,
    )  # fmt: skip


def shown(placed: list[Placed]) -> dict[str, int]:
    return {each.item.id: each.form.tokens for each in placed}


def test_the_best_is_whole_before_the_next_is_named() -> None:
    """W1.1, F5.1: a smaller one behind it still enters, a larger one does not shorten it."""
    placed, left_out = fill([item("best", 200, 100), item("next", 90), item("small", 40)], 250, {})
    assert shown(placed) == {"best": 200, "small": 40}
    assert [each.id for each in left_out] == ["next"]


def test_a_long_text_leaves_room_for_others_and_takes_what_they_leave() -> None:
    """W1.1, A3.3: first a passage, then depth, of the best alone."""
    long, weak = item("long", 3_000, 400), replace(item("weak", 900, 400), relevance=0.2)
    others = [item(f"o{n}", 100) for n in range(4)]
    placed, _ = fill([long, *others, weak], 1_500, {})
    assert shown(placed) == {"long": 400, **{f"o{n}": 100 for n in range(4)}, "weak": 400}
    placed, _ = fill([long, *others, weak], 8_000, {})
    assert shown(placed) == {"long": 3_000, **{f"o{n}": 100 for n in range(4)}, "weak": 400}


def test_a_text_that_is_shown_whole_is_never_cut() -> None:
    """W1.1: to weigh and cut a long text takes longer than to place it. Where it is not whole, all forms are there."""
    made: list[int] = []

    def forms(*tokens: int) -> Iterator[Form]:
        for cost in tokens:
            made.append(cost)
            yield Form(detail="full", text=f"{cost}", tokens=cost)

    whole, cut = (replace(item(name), forms=LazyForms(forms(300, 200, 100))) for name in ("whole", "cut"))
    placed, _ = fill([whole, cut], 450, {})
    assert (shown(placed), made) == ({"whole": 300, "cut": 100}, [300, 300, 200, 100])
    assert [form.tokens for form in whole.forms] == [300, 200, 100]
    made.clear()
    never = replace(item("never"), forms=LazyForms(forms(60)), least=51)
    assert (shown(fill([cut, never], 150, {})[0]), made) == ({"cut": 100}, [])
    assert (len(cut.forms), cut.forms[-1].tokens, [form.tokens for form in cut.forms[:-1]]) == (3, 100, [300, 200])


def test_nothing_is_added_to_use_a_budget_up() -> None:
    """W1.1, F5.2."""
    placed, left_out = fill([item("one", 40), item("two", 30)], 8_000, {})
    assert (shown(placed), left_out) == ({"one": 40, "two": 30}, [])


def test_a_small_block_ends_where_an_answer_is_unlikely() -> None:
    """W1.1, W1.3: the best stay, however unlikely; a larger block takes what is less likely too."""
    answers = [replace(item(f"a{n}", 40), chance=0.5 if n == 0 else 0.03) for n in range(9)]
    for budget in (300, 1_000):
        placed, left_out = fill(answers, budget, {})
        assert [*shown(placed)] == [f"a{n}" for n in range(SURE_OF)]
        assert [each.id for each in left_out] == [f"a{n}" for n in range(SURE_OF, 9)]
    turns = [replace(answers[n], kind="message", least=n % 2) for n in range(9)]
    assert [*shown(fill(turns, 1_000, {})[0])] == ["a0", "a1", "a2", "a4", "a6", "a8"]
    assert least_chance(1_000) > 0.03 > least_chance(4_000)
    assert len(fill(answers, 4_000, {})[0]) == 9


def test_where_no_answer_is_likely_they_are_short() -> None:
    """W3.1: most such questions have no answer here."""
    doubtful = [replace(item(f"a{n}", 900, 400, 140), chance=0.06) for n in range(9)]
    assert shown(fill(doubtful, 1_000, {})[0]) == {f"a{n}": 140 for n in range(SURE_OF)}
    assert shown(fill(doubtful, 2_500, {})[0]) == {f"a{n}": 140 for n in range(9)}
    likely = [replace(doubtful[0], chance=0.6), *doubtful[1:]]
    assert max(shown(fill(likely, 1_000, {})[0]).values()) > DOUBTED_TOKENS


def test_what_the_answers_leave_is_for_constraints() -> None:
    """W1.1: one that bears on the question must be there; many of them still end."""
    path = [item("path", 80, share="root")]
    rules = [item("identity", 20, share="identity"), item("rule", 46, share="censor"), item("theirs", 46, share=OTHERS)]
    placed, left_out = fill([*path, *rules, item("answer", 40)], 300, {})
    assert (shown(placed), left_out) == ({"path": 80, "identity": 20, "rule": 46, "theirs": 46, "answer": 40}, [])
    placed, left_out = fill([*path, *rules, item("answer", 190)], 300, {})
    assert (shown(placed)["answer"], [each.id for each in left_out]) == (190, ["rule", "theirs"])
    many = [item(f"rule{n}", 30, share="censor") for n in range(30)]
    assert len(fill([*many, item("answer", 40)], 4_000, {})[0]) == OF_CONSTRAINTS // 30 + 1


def test_what_must_be_there_takes_a_third_of_a_small_block() -> None:
    """W1.1: identity, constraints and the path of the task; more of a large one, each up to its part."""
    before = [item(f"{share}{n}", 30, share=share) for share in ("identity", "censor", "ancestors") for n in range(20)]
    answers = [item(f"a{n}", 20) for n in range(60)]
    for budget in (200, 600, 900):
        placed, _ = fill([*before, *answers], budget, {})
        taken = sum(each.form.tokens for each in placed if each.item.share != ANSWERS)
        assert 30 <= taken <= budget // 3
    placed, _ = fill([*before, *answers], 4_000, {})
    assert sum(each.form.tokens for each in placed if each.item.share == "ancestors") == 600


def test_the_nearest_of_a_kind_come_behind_the_best_five() -> None:
    """C4.2: and before the sixth, in a quarter of the room."""
    answers = [item(f"a{n}", 50) for n in range(20)]
    nearest = [item(f"n{n}", 50, share=NEAREST) for n in range(5)]
    placed, _ = fill([*answers, *nearest], 400, {})
    assert [*shown(placed)] == [*(f"a{n}" for n in range(BEST + 1)), "n0", "n1"]


def test_the_flexible_part_can_be_held_down() -> None:
    """C1.3."""
    placed, _ = fill([item(f"a{n}", 50) for n in range(20)], 4_000, {}, flexible=200)
    assert len(placed) == 4


def test_where_it_was_noted_costs_no_answer_its_place() -> None:
    """W1.1, W2.1: a form that says more than the record itself comes last."""
    told = item("told", 60, 40)
    told = replace(told, forms=(replace(told.forms[0], is_last=True), told.forms[1]))
    assert shown(fill([told, item("next", 50)], 100, {})[0]) == {"told": 40, "next": 50}
    assert shown(fill([told, item("next", 50)], 110, {})[0]) == {"told": 60, "next": 50}


@given(
    st.lists(st.tuples(st.sampled_from(SHARES), st.lists(st.integers(1, 600), min_size=1, max_size=3)), max_size=30),
    st.integers(0, 2_000),
)
def test_answers_cost_no_more_than_the_budget_and_nothing_gets_lost(
    drawn: list[tuple[str, list[int]]], budget: int
) -> None:
    """A3.1: required ones apart, which stand at their shortest."""
    items = [item(f"i{n}", *sorted(t, reverse=True), share=share) for n, (share, t) in enumerate(drawn)]
    placed, left_out = fill(items, budget, {"Known Information": 4})
    assert sorted([each.item.id for each in placed] + [each.id for each in left_out]) == sorted(i.id for i in items)
    assert sum(each.form.tokens for each in placed) + 4 * bool(placed) <= max(budget, 0)
    assert FIRST_TOKENS < 500


def test_the_newest_state_of_a_thread_is_not_crowded_out_by_an_older_one() -> None:
    """W5.2: it has as much room, unless the older one is a likely answer; then that comes first, and it behind."""
    new = replace(item("new", 260, 120, 60), chance=0.1)
    best = replace(item("best", 260, 120, 60), chance=0.1, newest="new")
    assert shown(fill([new, best], 260, {})[0]) == {"new": 120, "best": 120}
    assert shown(fill([new, best], 100, {})[0]) == {"new": 60}
    assert shown(fill([new, replace(best, chance=0.3)], 330, {})[0]) == {"best": 260, "new": 60}
    others = [item(f"o{n}", 10) for n in range(BEST - 1)]
    new, best = (replace(each, chance=0.2) for each in (new, best))
    assert shown(fill([*others, new, best], 1_000, {})[0]) == {
        **{f"o{n}": 10 for n in range(4)}, "new": 260, "best": 260,
    }  # fmt: skip

"""Fitting items into a budget."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.context.budget import ALWAYS, FOUND, OTHERS, Form, Item, Placed, arranged, own_share, place
from mcp_memory.domain.model.context_sections import SECTIONS, Section

TITLES = {"Task": 3, "Known Information": 4, "Identity": 2, "Active Constraints": 3}


def item(
    name: str, *tokens: int, share: str = "rest", section: str = "Known Information", required: bool = False
) -> Item:
    """An item with one form for each number of tokens, fullest first."""
    details = ("full", "summary", "micro", "micro")
    forms = tuple(Form(detail=details[i], text=f"{name}{i}", tokens=cost) for i, cost in enumerate(tokens))
    return Item(
        id=name,
        kind="fact",
        source="important",
        section=section,
        share=share,
        score=1.0,
        forms=forms,
        required=required,
    )


def cost(placed: list[Placed]) -> int:
    return sum(each.form.tokens for each in placed) + sum(TITLES[s] for s in {each.item.section for each in placed})


def names(items: list[Item] | list[Placed]) -> list[str]:
    return [each.item.id if isinstance(each, Placed) else each.id for each in items]


def test_smaller_items_enter_behind_one_that_is_too_large() -> None:
    """A3.3: one long item never starves the rest."""
    placed, left_out = place([item("long", 500), item("a", 10), item("b", 10)], 30, TITLES)
    assert names(placed) == ["a", "b"]
    assert names(left_out) == ["long"]


def test_an_item_too_large_for_the_space_left_is_shown_at_a_lower_detail() -> None:
    """A3.3: detail falls before an item is skipped."""
    placed, left_out = place([item("a", 15, 5), item("b", 15, 6)], 30, TITLES)
    assert [(each.item.id, each.form.detail) for each in placed] == [("a", "full"), ("b", "summary")]
    assert left_out == []


def test_the_cheapest_forms_go_first_where_asked_and_the_leftover_deepens_the_best() -> None:
    """A3.3: with `compress`, breadth comes before depth."""
    items = [item("a", 20, 5), item("b", 20, 5), item("c", 20, 5)]
    placed, _ = place(items, 34, TITLES, cheapest_first=True)
    assert [each.form.tokens for each in placed] == [20, 5, 5]


def test_the_leftover_takes_the_fullest_form_that_fits() -> None:
    """A3.3: deepening tries every form, fullest first."""
    placed, _ = place([item("a", 50, 12, 5)], 20, TITLES, cheapest_first=True)
    assert [each.form.tokens for each in placed] == [12]


def test_what_is_always_there_is_held_to_its_share_while_others_wait() -> None:
    """A3.3: twenty censors do not push out the one fact that was asked for."""
    censors = [item(f"c{i}", 20, share="censor", section="Active Constraints") for i in range(20)]
    fact = item("fact", 30)
    placed, _ = place([*censors, fact], 800, TITLES)
    assert "fact" in names(placed)
    placed, _ = place([*censors, fact], 100, TITLES)
    assert "fact" in names(placed)


def test_what_a_share_leaves_over_goes_to_the_others() -> None:
    """A3.3: no share is kept empty, and an overfull one uses what others left."""
    placed, left_out = place([item(f"f{i}", 10) for i in range(9)], 94, TITLES)
    assert len(placed) == 9
    assert left_out == []
    tasks = [item(f"t{i}", 10, share="root", section="Task") for i in range(9)]
    placed, left_out = place(tasks, 93, TITLES)
    assert (len(placed), left_out) == (9, [])


def test_a_required_item_stands_at_its_shortest_however_little_is_left() -> None:
    """A3.2: what must always be there is never pushed out by records."""
    now = item("now", 40, 12, share="root", section="Task", required=True)
    placed, _ = place([now, *(item(f"f{i}", 10) for i in range(20))], 60, TITLES)
    assert placed[0].item.id == "now"
    placed, left_out = place([now, item("f", 5)], 8, TITLES)
    assert (names(placed), names(left_out)) == (["now"], ["f"])


def test_a_required_item_is_full_where_its_share_allows() -> None:
    """A3.3: required does not mean short."""
    now = item("now", 40, 12, share="root", section="Task", required=True)
    placed, _ = place([now, *(item(f"f{i}", 10) for i in range(199))], 1_000, TITLES)
    assert placed[0].form.tokens == 40


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rest", "facts", "decisions", *ALWAYS]),
            st.sampled_from(sorted(TITLES)),
            st.lists(st.integers(1, 300), min_size=1, max_size=3).map(lambda costs: sorted(costs, reverse=True)),
        ),
        max_size=30,
    ),
    st.integers(0, 2_000),
    st.booleans(),
)
def test_placed_items_cost_no_more_than_the_budget_and_nothing_gets_lost(
    drawn: list[tuple[str, str, list[int]]], budget: int, cheapest_first: bool
) -> None:
    """A3.1: by the estimates; B1.3: each item is placed or left out, never both."""
    items = [item(f"i{n}", *costs, share=share, section=section) for n, (share, section, costs) in enumerate(drawn)]
    placed, left_out = place(items, budget, TITLES, cheapest_first=cheapest_first)
    assert cost(placed) <= budget
    assert sorted(names(placed) + names(left_out)) == sorted(names(items))
    assert names(placed) == [each.id for each in items if each.id in names(placed)]
    spare = budget - cost(placed)
    opened = {each.item.section for each in placed}
    for each in left_out:
        assert each.forms[-1].tokens + (0 if each.section in opened else TITLES[each.section]) > spare


def test_the_shares_together_leave_room_for_what_was_asked() -> None:
    """A3.3: however much there is of what is always there, 45 % of the budget are for the rest."""
    assert sum(ALWAYS.values(), Fraction(0)) == Fraction(55, 100)


def test_reverse_puts_the_best_last_and_edges_the_best_at_both_ends() -> None:
    """A6.4: only the order changes."""
    placed, _ = place([item(name, 5) for name in "abcde"], 100, TITLES)
    assert names(arranged(placed, "best_first")) == list("abcde")
    assert names(arranged(placed, "reverse")) == list("edcba")
    assert names(arranged(placed, "edges")) == list("acedb")
    assert names(arranged([], "edges")) == []


def test_one_long_item_never_starves_the_rest() -> None:
    """A3.3: while it has a shorter form it takes a quarter of what is left, and more only from what the rest leaves."""
    long, short = item("long", 100, 20), [item(f"s{i}", 25) for i in range(4)]
    placed, left_out = place([long, *short], 130, TITLES)
    assert names(left_out) == []
    assert placed[0].form.tokens == 20
    placed, _ = place([long, *short], 220, TITLES)
    assert placed[0].form.tokens == 100


def found(name: str, relevance: float, *tokens: int) -> Item:
    return replace(item(name, *tokens), source=FOUND, relevance=relevance)


def test_a_share_too_small_for_one_line_still_holds_its_first_item_at_its_shortest() -> None:
    """C7.2: in a small context a constraint stays while records give way."""
    censor = item("censor", 40, 12, share="censor", section="Active Constraints")
    placed, _ = place([censor, *(item(f"f{i}", 10) for i in range(20))], 60, TITLES)
    assert "censor" in names(placed)


def test_what_is_always_there_has_the_parts_of_the_contract() -> None:
    """C1.1: 500, 300, 500 and 700 of 8,000; T2.1: 5, 15 and 10 % for the stack; B5.2: in this order."""
    assert {share: round(part * 8_000) for share, part in ALWAYS.items()} == {
        "identity": 500, "censor": 300, "approach": 500, "focus": 700, "root": 400, "ancestors": 1_200, "finished": 800,
    }  # fmt: skip
    assert list(ALWAYS) == ["identity", "censor", "approach", "focus", "root", "ancestors", "finished"]


def test_a_section_may_have_a_part_of_its_own() -> None:
    """O3.1: by its row; guidance that a query finds, being past, competes like any record."""
    own = Section(title="Open Questions", kinds=("decision",), share="questions", always=300)
    assert [own_share(own), *filter(None, map(own_share, SECTIONS))] == ["questions", "approach", "focus"]


def crowd(share: str, section: str, count: int = 200) -> list[Item]:
    return [item(f"{share}{n}", 10, share=share, section=section) for n in range(count)]


def spent(placed: list[Placed], share: str) -> int:
    return sum(each.form.tokens for each in placed if each.item.share == share)


def test_every_share_takes_its_part_where_all_are_full() -> None:
    """B5.1: rounded down, titles included; B5.2: what is always there, the stack, then the strategy's own shares."""
    always = [each for share in ALWAYS for each in crowd(share, "Task")]
    own = [each for share in ("decisions", "facts") for each in crowd(share, "Known Information", 400)]
    placed, _ = place([*always, *own], 8_000, TITLES, shares={"decisions": 0.5, "facts": 0.25})
    for share, part in ALWAYS.items():
        assert int(8_000 * part) - 13 < spent(placed, share) <= int(8_000 * part)
    remaining = 8_000 - cost([each for each in placed if each.item.share in ALWAYS])
    assert spent(placed, "decisions") >= remaining // 2 - 14
    assert spent(placed, "facts") >= remaining // 4 - 10
    assert 7_990 <= cost(placed) <= 8_000


def test_a_share_that_does_not_get_its_turn_by_score_gets_it_all_the_same() -> None:
    """B5.1: a thousand decisions do not take the place of the facts, which come behind them."""
    items = [*crowd("decisions", "Known Information"), *crowd("facts", "Known Information")]
    placed, _ = place(items, 404, TITLES, shares={"decisions": 0.5, "facts": 0.5})
    assert (spent(placed, "decisions"), spent(placed, "facts")) == (200, 200)
    placed, _ = place(items, 404, TITLES)
    assert spent(placed, "facts") == 0


def test_what_a_section_leaves_flows_to_the_others() -> None:
    """C1.2, B5.1: an empty one's too."""
    items = [*crowd("decisions", "Known Information"), *crowd("facts", "Known Information", 2)]
    placed, _ = place(items, 404, TITLES, shares={"decisions": 0.4, "facts": 0.3, "episodes": 0.3})
    assert (spent(placed, "decisions"), spent(placed, "facts")) == (380, 20)
    assert cost(placed) == 404


def test_the_flexible_part_can_be_held_down() -> None:
    """C1.3: of what remains beside what is always there no more is spent than that."""
    items = [item("me", 100, share="identity", section="Identity"), *crowd("facts", "Known Information")]
    placed, left_out = place(items, 1_000, TITLES, shares={"facts": 1.0}, flexible=300)
    assert spent(placed, "identity") == 100
    assert spent(placed, "facts") == 290
    assert left_out
    placed, _ = place(items, 350, TITLES, shares={"facts": 1.0}, flexible=3_000)
    assert cost(placed) <= 350


def test_the_root_goal_stands_beside_what_is_required() -> None:
    """T2.1: its share is never spent on a fuller line of the current task."""
    now = item("now", 40, 12, share="root", section="Task", required=True)
    root = item("root", 30, 15, share="root", section="Task")
    records = [item(f"f{n}", 10) for n in range(20)]
    placed, _ = place([now, root, *records], 60, TITLES)
    assert names(placed)[:2] == ["now", "root"]
    placed, _ = place([now, root, *records], 1_000, TITLES)
    assert [each.form.tokens for each in placed[:2]] == [40, 30]


def test_advice_gives_way_to_a_record_where_space_is_short() -> None:
    """C1.1: the approach is there where its part of the budget can hold it, and not at a record's cost."""
    advice = item("strategy:x", 40, 20, share="approach", section="Task")
    placed, left_out = place([advice, item("f", 30)], 40, TITLES)
    assert (names(placed), names(left_out)) == (["f"], ["strategy:x"])
    placed, _ = place([advice, item("f", 30)], 400, TITLES)
    assert names(placed) == ["strategy:x", "f"]


def test_constraints_come_before_what_is_only_known_up_to_a_quarter() -> None:
    """A4.1: where the second in full would leave the third no room, it is shorter."""
    constraints = [item(name, 20, 10, share="censor", section="Active Constraints") for name in ("a", "b", "c")]
    facts = [item(f"fact{n}", 12) for n in range(20)]
    placed, _ = place([*facts, *constraints], 120, TITLES)
    assert [(each.item.id, each.form.tokens) for each in placed[-3:]] == [("a", 20), ("b", 10), ("c", 10)]
    placed, left_out = place([*facts, *constraints], 80, TITLES)
    assert names(placed[-2:]) == ["a", "b"]
    assert names(left_out[-1:]) == ["c"]


def test_what_other_agents_forbid_lives_on_what_the_readers_own_leaves() -> None:
    """X5.1: none of the reader's own gives way to it, also where the budget holds only one of them."""
    own, foreign = item("own", 40, share="censor"), item("foreign", 40, share=OTHERS)
    assert names(place([foreign, own], 44, TITLES)[0]) == ["own"]
    assert names(place([foreign, own], 84, TITLES)[0]) == ["foreign", "own"]
    many = [item(f"foreign{n}", 40, share=OTHERS) for n in range(50)]
    assert "record" in names(place([*many, item("record", 800)], 1_000, TITLES)[0])

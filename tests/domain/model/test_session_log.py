"""The log of a session: its turns, its exchanges, and the order of what stands in it."""

from typing import Any

import pytest
from hypothesis import given

from mcp_memory.domain.model.session_log import (
    Entry,
    PassPlan,
    Replacement,
    SessionLog,
    check,
    id_order,
    in_order,
    level_over,
    replacing,
    role_of,
)
from tests.compaction.conftest import a_log, an_entry, quarter, random_logs


def call(call_id: str | None) -> tuple[str, str, dict[str, Any]]:
    return "call", "{}", {"call_id": call_id}


def result(call_id: str | None) -> tuple[str, str, dict[str, Any]]:
    return "result", "done", {"call_id": call_id}


def test_a_turn_runs_from_one_message_of_the_users_to_the_next() -> None:
    """E2.3: what comes before the first message is a turn by itself."""
    log = a_log(("system", "s"), ("user", "a"), ("assistant", "b"), ("assistant", "c"), ("user", "d"))
    assert log.turns == ((0,), (1, 2, 3), (4,))
    assert log.turns_since == (2, 1, 1, 1, 0)


def test_an_empty_log_has_no_turns_and_no_tokens() -> None:
    log = SessionLog(())
    assert (log.turns, log.turns_since, log.exchanges, log.tokens) == ((), (), (), 0)
    assert log.unanswered == frozenset()


def test_a_block_in_the_users_role_is_no_word_of_theirs_even_when_it_is_put_away() -> None:
    said = {"role": "user", "form": "external"}
    assert an_entry(1, "put away", **said).is_users
    assert not an_entry(1, "put away", **said, level=1).is_users
    assert not an_entry(1, "[GOAL BATCH]", role="user", form="batch", level=1).is_users


def test_a_call_is_answered_by_the_results_of_its_id_until_the_id_is_used_again() -> None:
    """E2.5: calls made side by side, several results to one call, ids used twice."""
    log = a_log(call("a"), call("b"), result("b"), result("a"), result("a"), call("a"), result("a"))
    assert log.exchanges == ((0, 3, 4), (1, 2), (5, 6))
    assert log.exchange_of[4] == (0, 3, 4)


def test_a_call_without_an_id_is_answered_by_the_result_that_follows_it() -> None:
    log = a_log(call(None), result(None), call(None), ("user", "so"), result(None))
    assert log.exchanges == ((0, 1),)
    assert log.unanswered == {2}


def test_results_without_ids_answer_the_calls_made_before_them_in_order() -> None:
    """E2.5, P3.1: each its own, of one tool or of two, in the tools' order where that is another."""
    log = a_log(call(None), ("assistant", "both"), call(None), call("a"), result(None), result("a"), result(None))
    assert log.exchanges == ((0, 4), (2, 6), (3, 5))
    log = a_log(call(None), call(None), result(None), call(None), result(None), result(None))
    assert log.exchanges == ((0, 2), (3, 4))  # What was not answered by then never is.
    calls = [("call", "{}", {"call_id": None, "tool": tool}) for tool in ("read", "list")]
    answers = [("result", "done", {"call_id": None, "tool": tool}) for tool in ("list", "read")]
    assert a_log(*calls, *answers).exchanges == ((0, 3), (1, 2))


def test_a_result_without_a_call_is_part_of_no_exchange() -> None:
    log = a_log(result("a"), call("a"))
    assert log.exchanges == ()
    assert log.unanswered == {1}
    assert log.closed({0}) == {0}


def test_places_are_completed_to_whole_exchanges_or_cut_down_to_them() -> None:
    """E2.5: no call without its result, no result without its call."""
    log = a_log(("user", "a"), call("a"), call("b"), result("a"), result("b"))
    assert log.closed({0, 3}) == {0, 1, 3}
    assert log.within({0, 1, 3, 4}) == {0, 1, 3}
    assert [entry.text for entry in log.at({3, 0})] == ["a", "done"]


@given(random_logs())
def test_completing_and_cutting_leave_whole_exchanges_as_they_are(log: SessionLog) -> None:
    """E2.5: both give sets that neither changes any further."""
    some = frozenset(range(0, len(log.entries), 3))
    assert log.within(some) <= some <= log.closed(some)
    for whole in (log.within(some), log.closed(some)):
        assert log.closed(whole) == log.within(whole) == whole


@given(random_logs())
def test_every_entry_is_in_one_turn_and_in_one_exchange_at_most(log: SessionLog) -> None:
    places = list(range(len(log.entries)))
    assert [place for turn in log.turns for place in turn] == places
    parts = [place for exchange in log.exchanges for place in exchange]
    assert len(set(parts)) == len(parts)
    for exchange in log.exchanges:
        kinds = [log.entries[place].kind for place in exchange]
        assert kinds == ["tool_call", *["tool_result"] * (len(exchange) - 1)]
        assert list(exchange) == sorted(exchange)


def test_what_an_entry_covers_is_numbered_as_it_was_told() -> None:
    """D3.1: from 1, whatever stands in between, and whatever was compacted before."""
    block = an_entry(2, "block", covers=("r000002", "r000003", "r000005", "r000007", "r1000000"))
    log = in_order([an_entry(1, "one"), block, an_entry(4, "four"), an_entry(6, "six", covers=("r000006",))])
    assert [log.covered_numbers(entry) for entry in log.entries] == ["1", "2-3 5 7-8", "4", "6"]


def test_entries_stand_in_the_order_of_the_first_original_that_each_covers() -> None:
    """E4.1: a longer id is a later one."""
    block = an_entry(9, "block", covers=("r000002", "r000009"))
    entries: list[Entry] = [an_entry(5, "five"), block, an_entry(1, "one"), an_entry(9, "late", covers=("r1000000",))]
    assert [entry.text for entry in in_order(entries).entries] == ["one", "block", "five", "late"]
    assert id_order("rzzzzzz") < id_order("r1000000")


def test_whose_an_entry_is_follows_from_its_kind_and_the_word_used_for_the_role() -> None:
    assert [role_of("tool_call", None), role_of("tool_result", "user")] == ["assistant", "tool"]
    words = [None, "user", "Human", "assistant", "ai", "model", "system", "developer", "narrator"]
    assert [role_of("message", word) for word in words] == [
        *["user"] * 3,
        *["assistant"] * 3,
        *["system"] * 2,
        "assistant",
    ]


def test_the_revision_tells_what_the_log_shows() -> None:
    """E1.3: the same for the same entries, another where one is replaced or pinned."""
    log = a_log(("user", "a"), ("assistant", "b"))
    assert log.revision == SessionLog(log.entries).revision
    assert log.revision != SessionLog(log.entries[:1]).revision
    assert log.revision != a_log(("user", "a"), ("assistant", "b", {"pinned": True})).revision


def test_a_text_in_other_words_is_one_level_above_what_it_says() -> None:
    """E8.1."""
    assert level_over([]) == 1
    assert level_over([an_entry(1, "a", level=2), an_entry(2, "b")]) == 3


def test_what_was_told_is_numbered_in_the_order_in_which_it_was_told() -> None:
    """D11.1: originals, a block for two of them, and a line that no log holds."""
    log = a_log(*[("message", str(place)) for place in range(6)])
    ids = [entry.id for entry in log.entries]
    told = [(ids[0],), (ids[1],), (ids[3], ids[4]), (), (ids[2],), (ids[5],), ("r0gone",)]
    assert log.numbered(told) == "1-2 (4-5) ? 3 6 ?"
    assert log.numbered([]) == ""


def test_a_plan_that_would_harm_the_log_is_refused() -> None:
    """D12.1, E2.5: it comes from outside."""
    log = a_log(("message", "a"), call("c"), result("c"))

    def block(*places: int, covers: tuple[str, ...] = (), **fields: Any) -> Replacement:
        made = replacing(log.at(places), "tools", lambda own: own, quarter, **fields)
        entry = made.entry if not covers else an_entry(9, "block", covers=covers)
        return Replacement(entry=entry, replaces=made.replaces)

    good = [block(1, 2), replacing(log.at((0,)), "external", lambda _: "", quarter)]
    check(PassPlan(reason="", replacements=tuple(good)), log)
    check(PassPlan(reason="", replacements=(replacing(log.at((2,)), "mask", lambda _: "", quarter),)), log)
    bad = [[block(0), block(0)], [block(1)], [block(1, 2, kind="tool_call")], [block(0, covers=("r0",))]]
    bad.append([Replacement(entry=good[0].entry, replaces=("r0gone",))])
    for made in bad:
        with pytest.raises(ValueError, match=r"plan|covers"):
            check(PassPlan(reason="", replacements=tuple(made)), log)

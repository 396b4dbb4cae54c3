"""The sessions that benchmarks compact: the same for the same seed, and like those of coding agents."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from benchmarks.session_words import Words
from benchmarks.sessions import MadeSession, made_session
from benchmarks.survival import EXACT, Share, as_log, newest, surviving, together
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS, applied, replacing
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

SIZE = 100_000


@pytest.fixture(scope="module")
def counter() -> TiktokenCounter:
    return TiktokenCounter("o200k_base")


@pytest.fixture(scope="module")
def session(counter: TiktokenCounter) -> MadeSession:
    return made_session(SIZE, 5, counter.count)


@pytest.fixture
def share_of(session: MadeSession, counter: TiktokenCounter) -> Callable[..., float]:
    def share(**fields: str) -> float:
        chosen = (r for r in session.records if all(getattr(r, name) == value for name, value in fields.items()))
        return sum(counter.count(record.text) for record in chosen) / session.tokens

    return share


def kinds_of(records: Sequence[NewRecord], kind: str) -> list[NewRecord]:
    return [record for record in records if record.kind == kind]


def test_a_session_is_the_same_for_the_same_seed(counter: TiktokenCounter) -> None:
    assert made_session(20_000, 5, counter.count) == made_session(20_000, 5, counter.count)
    assert made_session(20_000, 5, counter.count).records != made_session(20_000, 6, counter.count).records


@pytest.mark.parametrize("tokens", [20_000, 50_000, 100_000])
@pytest.mark.parametrize("seed", [5, 6])
def test_a_session_has_the_size_that_was_asked_for(tokens: int, seed: int, counter: TiktokenCounter) -> None:
    made = made_session(tokens, seed, counter.count)
    assert made.tokens == pytest.approx(tokens, rel=0.03)
    assert made.tokens == sum(counter.count(record.text) for record in made.records)


def test_who_says_how_much_is_as_in_sessions_of_agents(share_of: Callable[..., float]) -> None:
    assert 0.60 <= share_of(kind="tool_result") <= 0.75
    assert 0.15 <= share_of(kind="message", role="assistant") <= 0.25
    assert 0.03 <= share_of(kind="message", role="user") <= 0.08


def test_every_call_has_its_one_result_and_time_goes_on(session: MadeSession, counter: TiktokenCounter) -> None:
    calls, results = (kinds_of(session.records, kind) for kind in ("tool_call", "tool_result"))
    assert {(one.call_id, one.tool) for one in calls} == {(one.call_id, one.tool) for one in results}
    assert len({one.call_id for one in calls}) == len(calls) == len(results)
    log = as_log(session.records, counter)
    assert not log.unanswered
    assert all(len(exchange) == 2 for exchange in log.exchanges)
    times = [record.occurred_at or 0.0 for record in session.records]
    assert times == sorted(set(times))
    assert all(record.text == record.text.strip() != "" for record in session.records)


def test_tools_fail_and_the_same_is_tried_again_until_it_works(session: MadeSession) -> None:
    outcomes = {record.call_id: record.outcome for record in kinds_of(session.records, "tool_result")}
    calls = [call for call in kinds_of(session.records, "tool_call") if call.tool == "bash"]
    tried = Counter(call.text for call in calls)
    again = {call.text: outcomes[call.call_id] for call in calls if tried[call.text] > 1}
    assert 0.05 <= sum(outcome == "failure" for outcome in outcomes.values()) / len(outcomes) <= 0.4
    assert "success" in again.values()


def test_users_give_directions_in_few_words_and_seldom_in_other_languages(
    session: MadeSession, counter: TiktokenCounter
) -> None:
    said = [record.text for record in kinds_of(session.records, "message") if record.role == "user"]
    short = [text for text in said if counter.count(text) <= INSTRUCTION_TOKENS]
    assert len(short) >= 0.85 * len(said)
    assert 10 <= sum(map(counter.count, short)) / len(short) <= 150
    assert 0 < sum(any(ord(letter) > 0xFF for letter in text) for text in said) <= 0.3 * len(said)


def test_hardly_anything_is_said_twice(session: MadeSession) -> None:
    lines = [line for record in kinds_of(session.records, "message") for line in record.text.splitlines() if line]
    assert len(set(lines)) >= 0.9 * len(lines)


def test_each_probe_stands_where_it_says_and_nowhere_else(session: MadeSession) -> None:
    assert len({probe.text for probe in session.probes}) == len(session.probes)
    spoken = {"user": "message", "assistant": "message", "call": "tool_call", "output": "tool_result"}
    for probe in session.probes:
        holders = [place for place, record in enumerate(session.records) if probe.text in record.text]
        assert holders == [probe.place]
        holder = session.records[probe.place]
        assert holder.text.count(probe.text) == 1
        assert holder.kind == spoken[probe.said]
        assert holder.role == probe.said or holder.kind != "message"
        assert probe.text not in probe.question


def test_probes_are_of_all_kinds_and_spread_over_the_session(session: MadeSession, counter: TiktokenCounter) -> None:
    assert 50 <= len(session.probes) <= 70
    assert len({probe.kind for probe in session.probes}) == 8
    assert {probe.said for probe in session.probes} == {"user", "assistant", "call", "output"}
    assert together(surviving(as_log(session.records, counter), session.probes), EXACT).of >= 15
    fifths = Counter(5 * probe.place // len(session.records) for probe in session.probes)
    assert all(fifths[fifth] >= len(session.probes) / 10 for fifth in range(5))


def test_a_whole_log_holds_every_probe_and_its_end_those_said_late(
    session: MadeSession, counter: TiktokenCounter
) -> None:
    log = as_log(session.records, counter)
    end = newest(log, SIZE // 4)
    assert together(surviving(log, session.probes)) == Share(found=len(session.probes), of=len(session.probes))
    assert end.tokens <= SIZE // 4
    assert not end.unanswered
    assert end.entries[-1] == log.entries[-1]
    assert 0.1 <= together(surviving(end, session.probes)).value <= 0.4


def test_what_stands_for_entries_is_searched_for_probes_like_the_rest(
    session: MadeSession, counter: TiktokenCounter
) -> None:
    log = as_log(session.records, counter)
    first, second = session.probes[:2]
    replaced = replacing(log.entries, "summary", lambda entry_id: f"{entry_id}: {first.text}", counter.count)
    left = applied(log, [replaced])
    assert together(surviving(left, [first, second])) == Share(found=1, of=2)
    assert surviving(left, [first])[first.kind].value == 1.0


def test_nothing_to_find_is_all_of_it() -> None:
    assert Share(found=0, of=0).value == 1.0
    assert str(Share(found=0, of=0)) == ""
    assert str(Share(found=1, of=3)) == "33.3 %"


@pytest.mark.parametrize(
    ("ending", "word", "expected"),
    [("s", "batch", "batches"), ("s", "query", "queries"), ("s", "retry", "retries"), ("ed", "cache", "cached"),
     ("ing", "settle", "settling"), ("ed", "retry", "retried"), ("ing", "retry", "retrying"), ("s", "relay", "relays")],
)  # fmt: skip
def test_blanks_are_inflected(ending: str, word: str, expected: str) -> None:
    assert Words(random.Random(1)).fill(f"${{noun}}{ending}", noun=word) == expected

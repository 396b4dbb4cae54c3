"""Decisions that hold: a later one that takes an earlier one back stands in its place."""

import pytest

from mcp_memory.domain.sessions import standing_decisions
from mcp_memory.domain.sessions.standing_decisions import standing
from tests.domain.sessions.made_sessions import session, told


@pytest.mark.parametrize(
    ("former", "later"),
    [
        ("Let's go with a half-resolution copy.", "Actually, scrap the half resolution: use a quarter."),
        ("Use Redis for the session cache.", "Use Memcached instead of Redis for the session cache."),
        ("Wir nehmen Postgres für die Warteschlange.", "Doch kein Postgres, wir nehmen SQLite für die Warteschlange."),
        ("The timeout of the importer is 30 s.", "The timeout of the importer is 60 s."),
        ("Use a copy of half resolution.", "Not half resolution but a quarter for the copy, use that."),
        ("队列用 Redis。", "不用 Redis 了，队列改用 RabbitMQ。"),
    ],
)
def test_a_decision_that_is_taken_back_is_replaced(former: str, later: str) -> None:
    """P1.2: and the new one says so."""
    assert standing([former, "Tabs, not spaces.", later]) == ("Tabs, not spaces.", f"{later} (no longer: {former})")
    assert standing([later], [former]) == (f"{later} (no longer: {former})",)


@pytest.mark.parametrize(
    "later", ["Actually make the timeout 30.", "We also use port 9090.", "Keep the port of the api."]
)
def test_in_doubt_both_stay(later: str) -> None:
    assert standing(["We use port 8080 for the api.", later]) == ("We use port 8080 for the api.", later)


@pytest.mark.parametrize(
    ("former", "later"),
    [
        ("Log level debug in staging.", "Actually, log level info in production instead."),
        ("Use tabs in the Python files.", "Use spaces in the YAML files instead of tabs."),
        ("Use httpx instead of requests for HTTP.", "Use aiohttp instead of requests for websockets over HTTP."),
        ("The branch of the release is main.", "The branch of the release is stable."),
        ("We decided to drop Python 3.8.", "No longer support Python 3.9 either."),
        ("Use Redis for the queue.", "Scrap Redis for the session cache."),
        ("Use Redis for the queue.", "Never drop Redis."),
        ("Never push to main directly.", "Never push to release directly, instead open a PR."),
    ],
)
def test_decisions_about_different_things_both_stay(former: str, later: str) -> None:
    assert standing([former, later]) == (former, later)


def test_of_several_the_named_one_is_replaced_and_a_chain_keeps_one_mark() -> None:
    chain = standing(
        [
            "Redis for the session cache.",
            "Use Redis for the queue.",
            "Memcached instead of Redis for the session cache.",
        ]
    )
    assert chain[0] == "Use Redis for the queue."
    again = standing(["Back to Redis instead of Memcached for the session cache (no longer: x)"], chain)
    assert again[-1].count("(no longer: ") == 1
    assert len(again) == 2


def test_a_session_keeps_the_users_last_word() -> None:
    entries = session(
        ("user", "Make the photos smaller."),
        ("assistant", "Half of the resolution would do."),
        ("user", "Let's go with half resolution for the photos."),
        ("assistant", "Done so."),
        ("user", "Actually, scrap half resolution for the photos: a quarter."),
        ("assistant", "Changed."),
        ("user", "hm, looks good to me"),
    )
    [decision] = told(entries, "decisions")
    assert decision.startswith("Actually, scrap half")
    assert told(entries, "next_steps") == []


@pytest.mark.parametrize("rule", ["No longer support Python 3.9 in CI.", "Never push the export to main."])
def test_a_rule_is_no_refusal_of_what_was_said_before(rule: str) -> None:
    entries = session(
        ("user", "Set up CI."), ("assistant", "CI runs Python 3.9 and the export to main."), ("user", rule)
    )
    assert told(entries, "dead_ends") == []


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "form",
    [
        "The timeout of importer {} is 30 s.",
        "The owner of record {} is Anna{}.",
        "Use lib{} instead of requests for service{}.",
        "Step {}: we do not use Redis for the queue.",
    ],
)
def test_thousands_of_decisions_are_not_compared_each_with_each(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1.2: two thousand took minutes; each is compared with those that differ from it in one value alone."""
    compared: list[str] = []

    def noted(former: str, _: str) -> None:
        compared.append(former)

    monkeypatch.setattr(standing_decisions, "otherwise", noted)
    decisions = [form.format(number, number) for number in range(200)]
    assert standing(decisions) == tuple(decisions)
    assert compared == []


def test_of_equal_decisions_the_first_is_replaced() -> None:
    again = ["Use tabs.", "Keep the port.", "Use tabs.", "Scrap the tabs."]
    assert standing(again) == ("Keep the port.", "Use tabs.", "Scrap the tabs. (no longer: Use tabs.)")


def test_what_an_offer_is_answered_with_later_holds() -> None:
    said = ["Cents or euros? → cents", "Go on.", "Use it instead of the."]
    assert standing([*said, "Cents or euros? → euros"])[-1].startswith("Cents or euros? → euros (no longer: Cents")

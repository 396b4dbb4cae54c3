"""Strategies in files and in calls: what they may say, and what a person reads when one is wrong."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.model.strategy import Strategy
from mcp_memory.errors import InvalidRequest
from mcp_memory.strategies import overridden, read_strategies

BUILT_IN = read_strategies(None)
WAYS = ("decision", "debugging", "planning", "question", "creation", "conversation")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "strategies.toml"


def read(file: Path, text: str) -> dict[str, Strategy]:
    """The user's strategies, without the built-in ones that they leave alone."""
    file.write_text(text, "utf-8")
    return {name: each for name, each in read_strategies(file).items() if each != BUILT_IN.get(name)}


def refusal(file: Path, text: str) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(file, text)
    return str(refused.value)


def test_the_built_in_strategies_are_those_of_the_contract() -> None:
    """A1.1, A6.1, C3.1: each can say what it is for."""
    assert set(BUILT_IN) == {
        "recent", "important", "balanced", "auto", "clustered", *WAYS, "coding", "support", "research",
    }  # fmt: skip
    assert all(name == strategy.name and strategy.description for name, strategy in BUILT_IN.items())
    assert [BUILT_IN[name].formula for name in ("recent", "important", "balanced")] == [
        "access", "importance", "balanced",
    ]  # fmt: skip
    assert BUILT_IN["balanced"].decay_hours == 1
    assert BUILT_IN["auto"].weights == {"relevance": 0.9, "importance": 0.07, "recency": 0.03}
    assert BUILT_IN["clustered"].layout == "clustered"


@pytest.mark.parametrize("name", WAYS)
def test_a_way_of_working_carries_questions_priorities_domains_and_limits(name: str) -> None:
    """C3.1, C4.1: with the composite score's weights and a half-life of 30 days."""
    way = BUILT_IN[name]
    assert 3 <= len(way.questions) <= 5
    assert way.limits == {"decision": 20, "fact": 30, "procedure": 10, "episode": 10}
    assert max(way.priorities.values()) == 1.0
    assert way.domains or name == "question"
    assert way.half_life_hours == 30 * 24
    assert way.weights == {
        "cosine": 0.5, "kind": 0.15, "recency": 0.15, "outcome": 0.1, "usage": 0.05, "confidence": 0.05,
    }  # fmt: skip
    assert {share: int(6_000 * part) for share, part in way.shares.items()} == {
        "decisions": 2_000, "facts": 1_500, "procedures": 1_500, "episodes": 1_000,
    }  # fmt: skip


def test_a_decision_looks_at_decisions_first() -> None:
    """C3.1."""
    assert BUILT_IN["decision"].priorities == {"decision": 1.0, "procedure": 0.8, "fact": 0.6, "episode": 0.4}


def test_a_short_question_takes_less_and_a_decision_more() -> None:
    """C1.3: between 3,000 and 12,000."""
    assert [BUILT_IN[name].flexible_tokens for name in WAYS] == [12_000, 6_000, 12_000, 3_000, 8_000, 4_000]


def test_kinds_of_work_share_by_source() -> None:
    """A6.5: recency, relevance and salience; how far relations are followed; what failed."""
    found = {
        name: (
            [each.weights[signal] for signal in ("recency", "relevance", "salience")],
            [each.shares[source] for source in ("recent", "semantic", "entities", "relations")],
            each.depth,
            each.failures,
        )
        for name, each in BUILT_IN.items()
        if name in ("coding", "support", "research")
    }
    assert found == {
        "coding": ([0.3, 0.5, 0.2], [0.2, 0.4, 0.2, 0.2], 2, True),
        "support": ([0.4, 0.4, 0.2], [0.3, 0.35, 0.2, 0.15], 1, False),
        "research": ([0.2, 0.6, 0.2], [0.1, 0.5, 0.2, 0.2], 3, True),
    }


def test_a_users_table_changes_only_the_fields_it_names(file: Path) -> None:
    """A6.5: of a built-in strategy of its name."""
    assert read(file, '[coding]\ndepth = 4\nquestions = ["Is it tested?"]') == {
        "coding": replace(BUILT_IN["coding"], depth=4, questions=("Is it tested?",))
    }


def test_a_new_strategy_may_start_from_another(file: Path) -> None:
    """A6.5: also from one of the same file, wherever it stands; the built-in one of the name stays reachable."""
    found = read(
        file, '[mine]\nlike = "house"\ndepth = 0\n[house]\nlike = "coding"\n[coding]\nlike = "coding"\ndepth = 5'
    )
    assert found["coding"] == replace(BUILT_IN["coding"], depth=5)
    assert found["house"] == replace(found["coding"], name="house")
    assert found["mine"] == replace(found["house"], name="mine", depth=0)
    assert read(file, '[mine]\nlike = "support"') == {"mine": replace(BUILT_IN["support"], name="mine")}


def test_weights_alone_make_a_strategy(file: Path) -> None:
    """A6.5."""
    assert read(file, "[fresh]\nweights = { recency = 2, access = 0.5 }") == {
        "fresh": Strategy(name="fresh", weights={"recency": 2, "access": 0.5})
    }


def test_weights_speak_for_the_weighted_formula_and_another_formula_drops_them(file: Path) -> None:
    """A6.5: so that one word is enough to change it."""
    found = read(file, '[recent]\nweights = { recency = 1 }\n[auto]\nformula = "importance"')
    assert found["recent"] == replace(BUILT_IN["recent"], formula="weighted", weights={"recency": 1})
    assert found["auto"] == replace(BUILT_IN["auto"], formula="importance", weights={})


def test_weights_of_a_product_stay_those_of_a_product(file: Path) -> None:
    """A6.5: in a strategy that starts from it, and in a call."""
    found = read(file, '[a]\nformula = "product"\nweights = { decay = 1 }\n[b]\nlike = "a"\nweights = { access = 1 }')
    assert [found[name].formula for name in "ab"] == ["product", "product"]
    assert overridden(found["a"], {"weights": {"access": 2}}).formula == "product"
    assert read(file, '[auto]\nformula = "product"')["auto"].weights == BUILT_IN["auto"].weights


def test_an_empty_file_changes_nothing(file: Path) -> None:
    assert read(file, "# later\n") == {}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[a]\nweights = { speed = 1 }", "weights.speed must be 'relevance', 'cosine'"),
        ("[a]\nweights = { recency = -1 }", "weights.recency must be greater than or equal to 0."),
        ("[a]\nweights = { recency = true }", "weights.recency must be a valid number."),
        ("[a]\nweights = { recency = nan }", "weights.recency must be a finite number."),
        ("[a]\nweights = { recency = 0 }", "weights must hold one above 0."),
        ("[a]\nweights = 3", "weights must be a table."),
        ("[a]\n", "weights are required, as in { relevance = 0.7, recency = 0.3 }."),
        ('[recent]\nformula = "weighted"', "weights are required"),
        ('[recent]\nformula = "product"', "weights are required"),
        ('[a]\nformula = "access"\nweights = { recency = 1 }', "weights have no place in the formula access"),
        ("[coding]\nspeed = 1", "speed is no field. Known: description, formula, weights"),
        ('[coding]\n"a\\nb" = 1', "… is no field."),
        ("[coding]\nshares = { facts = 0.5, recent = 0.2 }", "shares must go either by section (decisions, episodes"),
        ("[coding]\nshares = { facts = 0.5, episodes = 0.6 }", "shares must not add up to more than 1."),
        ("[coding]\nshares = { facts = 0 }", "shares.facts must be greater than 0."),
        ("[coding]\npriorities = { fact = 1.5 }", "priorities.fact must be less than or equal to 1."),
        ("[coding]\nlimits = { fact = 1001 }", "limits.fact must be less than or equal to 1000."),
        ("[coding]\nleast = { facts = 1 }", "least.facts must be 'fact', 'decision'"),
        ("[coding]\ndepth = 6", "depth must be less than or equal to 5."),
        ("[coding]\ndepth = 1.5", "depth must be a valid integer."),
        ("[coding]\nhalf_life_hours = 0", "half_life_hours must be greater than 0."),
        ("[coding]\ndecay_hours = inf", "decay_hours must be a finite number."),
        ('[coding]\nfailures = "no"', "failures must be a valid boolean."),
        ('[coding]\nlayout = "round"', "layout must be 'flat', 'by_kind' or 'clustered'."),
        ('[coding]\nquestions = "why?"', "questions must be a list."),
        ('[coding]\nquestions = [""]', "questions.0 must not be empty."),
        ('[coding]\ndescription = "' + "x" * 301 + '"', "description must have at most 300 characters."),
        (f"[coding]\nquestions = {['x'] * 11}", "questions must have at most 10 items."),
        ('[coding]\nlike = "codes"', "like must be the name of another strategy: auto, balanced"),
        ("[coding]\nlike = 3", "like must be the name of another strategy"),
        ('[a]\nlike = "a"', "like must not lead in a circle, as here: a > a."),
        ('[a]\nlike = "b"\n[b]\nlike = "a"', "like must not lead in a circle, as here: a > b > a."),
    ],
)
def test_what_cannot_be_is_refused_by_file_strategy_and_field(file: Path, table: str, said: str) -> None:
    """A6.5: with what to do."""
    message = refusal(file, table)
    name = table[1 : table.index("]")]
    assert message.startswith(f"{file}, strategy ")
    assert f"strategy {name}: " in message or "circle" in message
    assert said in message
    assert message.endswith("Correct the file and start again.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("depth = 1", "depth stands outside of any strategy; put it under a line [strategy-name]."),
        ("[Coding]\ndepth = 1", "'Coding' is no name for a strategy; take a small letter, then"),
        (f"[{'a' * 41}]\ndepth = 1", "is no name for a strategy"),
        ("[coding", "is no TOML:"),
        ("a = " + "[" * 5_000, "is no TOML:"),
    ],
)
def test_a_file_of_another_form_is_refused(file: Path, text: str, said: str) -> None:
    """A6.5."""
    message = refusal(file, text)
    assert message.startswith(str(file))
    assert said in message


def test_a_file_that_is_not_there_or_is_no_text_is_refused(file: Path) -> None:
    """A6.5."""
    with pytest.raises(InvalidRequest, match=r"strategies\.toml cannot be read: .* Make it readable"):
        read_strategies(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequest, match=r"strategies\.toml is no TOML"):
        read_strategies(file)


def test_a_call_overrides_the_fields_it_names() -> None:
    """A6.5: as a whole, and for itself alone."""
    changed = overridden(BUILT_IN["decision"], {"weights": {"importance": 1}, "limits": {"fact": 3}, "failures": False})
    assert changed == replace(BUILT_IN["decision"], weights={"importance": 1}, limits={"fact": 3}, failures=False)
    assert overridden(BUILT_IN["decision"], {}) == BUILT_IN["decision"]
    assert read_strategies(None)["decision"].limits["fact"] == 30


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"depth": 9}, "`strategy`: depth must be less than or equal to 5."),
        ({"like": "coding"}, "like is no field."),
        ({"name": "coding"}, "name is no field."),
        ({"decay_hours": None}, "decay_hours must be a valid number."),
    ],
)
def test_a_call_cannot_ask_for_what_cannot_be(overrides: dict[str, Any], said: str) -> None:
    """A6.5."""
    with pytest.raises(InvalidRequest) as refused:
        overridden(BUILT_IN["auto"], overrides)
    assert said in str(refused.value)


def test_what_is_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    """X6.4: a pipe would keep a server from starting; a file beyond all measure too."""
    path = tmp_path / "strategies.toml"
    os.mkfifo(path)
    with pytest.raises(InvalidRequest, match=r"cannot be read: not an ordinary file\. Make"):
        read_strategies(path)
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidRequest, match=r"cannot be read: larger than 1 MB\. Make"):
        read_strategies(path)

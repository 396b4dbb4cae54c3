"""What is found in texts: conversation, prose, code, other languages; and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.records import Entity
from mcp_memory.domain.text.entity_extraction import (
    MAX_FOUND,
    MAX_LENGTH,
    MAX_PARTS,
    MAX_QUERY_PARTS,
    found_entities,
    name_candidates,
)
from mcp_memory.domain.text.words import entity_key


def found(text: str) -> list[tuple[str, str]]:
    """Type and name of everything found in a text, in order."""
    return [(entity.type, entity.name) for entity in found_entities(text)]


def names(text: str) -> list[str]:
    return [name for _, name in found(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Postgres listens on port 5432.", ["Postgres"]),
        ("The export took 3.1 GB in Postgres, at 2 GHz.", ["Postgres"]),
        ("It is Postgres, chosen by Melanie Smith over MySQL in May.", ["Postgres", "Melanie Smith", "MySQL"]),
        ("Wow, that's cool, Caroline! What happened that was so awesome?", ["Caroline"]),
        ("Hey Mel! Good to see you! I'm swamped with work. What's up on Monday?", ["Mel"]),
        ("Caroline's painting is great; so is O'Brien's.", ["Caroline", "O'Brien"]),
        ("I went to a LGBTQ support group in New York yesterday.", ["LGBTQ", "New York"]),
        ("Dr. Smith met J. R. Tolkien.", ["Smith", "J. R. Tolkien"]),
        ("He was at the University of California, of all places.", ["University of California"]),
        ("John Smith went home. Then Bob Jones came.", ["John Smith", "Bob Jones"]),
        ("It was Berlin. Berlin again, said nobody. Python3", ["Berlin", "Python3"]),
        ("Kafka", []),
        ("Water is wet, water is blue. Kafka. Then Kafka!", ["Kafka"]),
        ("We run GitHub Actions; Johnson & Johnson do not.", ["GitHub Actions", "Johnson & Johnson"]),
        ("We use React, TypeScript and GraphQL.", ["React", "TypeScript", "GraphQL"]),
        ("Книгу написал Толстой в Москве.", ["Толстой", "Москве"]),
    ],
)  # fmt: skip
def test_names_are_found_in_prose(text: str, expected: list[str]) -> None:
    """R7: people, products and places, alone and in runs, also where they begin a sentence that speaks of them."""
    assert names(text) == expected


def test_programs_are_found_by_their_last_word() -> None:
    """R7: a service's name in lower case, without a mark; no compound that only says what kind of program."""
    assert names("The orders go through tide-api and harbor-ledger-sync.") == ["tide-api", "harbor-ledger-sync"]
    assert found("so is kube-proxy (see tide-api-v2)") == [("identifier", "kube-proxy")]
    assert names("a multi-server self-service in my-app, in-service, per-worker, on-call, up-to-date, web-scale") == []
    assert names("curl https://tide-api.example.org; a/tide-api") != ["tide-api"]


@pytest.mark.parametrize(
    "text",
    [
        "Running tests is fun. Yes. Finally! Nobody knows. Good point.",
        "Coffee was great. Everything works. Backups run at night.",
        "# Setting Up The Database Connection",
        "All The Things We Ever Wanted Are Here",
        "DO NOT EVER PUSH TO THE MAIN BRANCH. OK",
        "please DO NOT PUSH this, as in Big Bright Things Come Together Soon, see above",
        "On Monday in March I'm going, and I will too.",
        "e.g. this is done.Then we go. i.e. no, and/or he/she, 80 km/h on 2023/05/08",
        "Die Datenbank läuft auf dem Port 5432 und die Sicherung macht der Server.",
        "True and False, or None: a matter of taste.",
        "I. Then X. A's",
        "Grass grass is green. Flowers bloom. Glass endless. Snails",
        "",
        "   \n\n\t ",
    ],
)
def test_a_capital_alone_makes_no_name(text: str) -> None:
    """R7: sentences begin with one, headings, shouts and German nouns have them; junk would tie strangers together."""
    assert names(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fixed in mcp_memory/app.py twice", [("path", "mcp_memory/app.py"), ("path", "app.py")]),
        ("edit README.md and ./run.sh now", [("path", "README.md"), ("path", "./run.sh"), ("path", "run.sh")]),
        ("see /usr/local/bin or ~/notes", [("path", "/usr/local/bin"), ("path", "~/notes")]),
        (r"it is C:\Users\ann\file.txt here", [("path", r"C:\Users\ann\file.txt"), ("path", "file.txt")]),
        ("at https://docs.python.org/3/re.html, or", [("url", "https://docs.python.org/3/re.html")]),
        ("mail ann@example.com; cc @bob.", [("handle", "ann@example.com"), ("handle", "@bob")]),
        (
            "closes #123, PROJ-42 and org/repo#7, not CVE-2024-1234",
            [("issue", "#123"), ("issue", "PROJ-42"), ("issue", "org/repo#7"), ("issue", "CVE-2024-1234")],
        ),
        ("call parse_config or openFile", [("identifier", "parse_config"), ("identifier", "openFile")]),
        ("call `os.path.join`, then `run`", [("identifier", "os.path.join"), ("identifier", "run")]),
        ("a call of connect() and of open_app()", [("identifier", "connect()"), ("identifier", "open_app")]),
        ("loads json.make_encoder lazily", [("identifier", "json.make_encoder"), ("identifier", "make_encoder")]),
        ("self.value and __init__ of e.g. nothing", []),
    ],
)
def test_what_programs_are_made_of_is_found(text: str, expected: list[tuple[str, str]]) -> None:
    """R7: paths (and their files), addresses, issues, identifiers (and the last part of dotted ones)."""
    assert found(text) == expected


def test_code_is_read_as_code() -> None:
    """R7: what it defines and calls by telling names; no decorators, no keywords, no words of its comments."""
    code = (
        "@property\n"
        "def parseConfig(self, path):\n"
        '    """Return the Config of the Josephine file."""\n'
        "    cfg = json.load(open(path))\n"
        "    if cfg is None:\n"
        "        raise ConfigError('x')\n"
        "    return make_config(cfg)\n"
    )
    assert names(code) == ["parseConfig", "json.load", "ConfigError", "make_config"]
    fenced = "Melanie wrote this:\n```\nBob = Alice.run_all\nconnect()\n```\nand Caroline read it."
    assert names(fenced) == ["Melanie", "Alice.run_all", "run_all", "Caroline"]


def test_chinese_has_titles_and_what_it_takes_from_elsewhere() -> None:
    """R7: no capitals to go by, and no spaces around the rest."""
    text = "数据库的端口是5432，见《设计文档》和config.yaml，由PostgreSQL提供；问题见#12。"
    assert found(text) == [
        ("name", "设计文档"),
        ("path", "config.yaml"),
        ("identifier", "PostgreSQL"),
        ("issue", "#12"),
    ]
    assert names("今天我们决定使用新的数据库，因为旧的太慢了。") == []


def test_who_speaks_is_mentioned_and_details_are_read() -> None:
    """R7: the speaker first; the path of an event, the reasons of a decision."""
    said = found_entities(
        "I like Postgres.", "melanie", {"path": "src/app.py", "reasons": ["Because of Kafka."], "n": 1}
    )
    assert (said[0].name, said[0].type) == ("melanie", "name")
    assert {e.name for e in said} == {"melanie", "src/app.py", "app.py", "Postgres", "Kafka"}
    assert all(entity.found for entity in said)
    assert found_entities("x", None, {"path": 3}) == ()


def test_what_was_given_is_not_found_again() -> None:
    """R7: in whatever spelling."""
    given_ones = (Entity(name="POSTGRES", type="database"),)
    assert [e.name for e in found_entities("It is Postgres and Kafka.", given=given_ones)] == ["Kafka"]


def test_redacted_secrets_are_no_entities() -> None:
    """R4: the marker in their place names nothing."""
    assert names("the key is [REDACTED AWS Access Key] for now") == []


def test_a_listing_ties_nothing_to_everything() -> None:
    """R7: a bounded number for each record, of bounded length."""
    many = " ".join(f"name_{n}" for n in range(100))
    assert names(many) == [f"name_{n}" for n in range(MAX_FOUND)]
    assert names("see a_" + "x" * MAX_LENGTH) == []
    assert names("word " * 5000 + "beyond_reach") == []


def test_keys_forget_case_form_and_space() -> None:
    """B2.1: what two spellings of a name share."""
    assert entity_key(" Melanie\n SMITH ") == entity_key("melanie smith") == "melanie smith"
    assert entity_key("Straße") == entity_key("STRASSE")
    assert entity_key("ＡＢＣ") == "abc"


def test_candidates_of_a_query_are_whole_words_the_longest_first() -> None:
    """B2.1: from each beginning to each end, characters of unspaced scripts by themselves."""
    text = "Use src/app.py"
    candidates = list(name_candidates(text))
    assert candidates[0] == (0, len(text), "use src/app.py")
    assert [key for start, _, key in candidates if start == 4] == ["src/app.py", "src/app.", "src/app", "src/", "src"]
    assert {text[start:end] for start, end, _ in candidates} >= {"Use", "app", "app.py"}
    assert [key for _, _, key in name_candidates("数据x")] == ["数据x", "数据", "数", "据x", "据", "x"]
    endless = list(name_candidates("a " * 100_000))
    assert len(endless) <= MAX_PARTS * MAX_QUERY_PARTS


@given(st.text(alphabet="aA.b_/\\:#@-'’`(){}=;\n 1中文《》é", max_size=200), st.none() | st.text(max_size=20))
def test_any_text_is_read_without_harm(text: str, speaker: str | None) -> None:
    """S3.1: bounded, distinct, never empty."""
    entities = found_entities(text, speaker)
    keys = [entity_key(entity.name) for entity in entities]
    assert len(keys) == len(set(keys)) <= MAX_FOUND
    assert all(keys)

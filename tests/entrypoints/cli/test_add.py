"""add: what a person remembers by hand."""

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from mcp_memory.entrypoints.cli import app as command_line

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run


def test_add_prints_the_id_of_what_it_stored(run: "Run") -> None:
    """S7.1: and nothing else; the first one makes the memory."""
    ran = run("add", "The cat sleeps on the sofa.")
    assert (ran.code, ran.err) == (0, "")
    [record_id] = ran.out.split()
    assert run("show", record_id, "--json").json["text"] == "The cat sleeps on the sofa."
    found = run("search", "kitten", "--json").json["results"]
    assert [each["id"] for each in found] == [record_id]


def test_everything_that_can_be_said_of_it_is_an_option(run: "Run") -> None:
    """S7.1."""
    options = (
        "--kind",
        "decision",
        "--tag",
        "a",
        "--tag",
        "b",
        "--importance",
        "7",
        "--pin",
        "--visibility",
        "private",
    )
    more = ("--details", '{"reasons": ["cheap"]}', "--occurred", "2026-03-01", "--json")
    answer = run("add", "We sample slowly.", *options, *more).json
    assert answer["status"] == "stored"
    shown = run("show", answer["id"], "--json").json
    assert (shown["kind"], shown["tags"], shown["importance"]) == ("decision", ["a", "b"], 7.0)
    assert (shown["pinned"], shown["visibility"], shown["details"]) == (True, "private", {"reasons": ["cheap"]})
    assert shown["occurred_at"].startswith("2026-03-01")


def test_what_is_known_is_named_and_not_stored_again(run: "Run") -> None:
    """S7.1, R4: the note is for people, on stderr."""
    first = run("add", "The cat sleeps.")
    again = run("add", "The cat sleeps.")
    assert again.out == first.out
    assert again.err == "mcp-memory: This was known already, as the record named above.\n"
    assert run("add", "The cat sleeps.", "--json").json["status"] == "confirmed"
    assert run("add", "The cat sleeps.", "--tag", "cat").err.endswith("It keeps what is new: tags.\n")


def test_a_secret_that_is_cut_out_is_named(run: "Run") -> None:
    """U2.1, S8: on stderr, beside the id."""
    told = run("add", f"The runner logs in with ghp_{'a1B2c3D4e5' * 3}F6g7h8.")
    assert (len(told.out.split()), told.err) == (1, "mcp-memory: 1 secret was cut out: [REDACTED GitHub Token].\n")


def test_what_was_erased_is_stored_again_by_an_option(run: "Run") -> None:
    """U2.1: which the refusal names."""
    run("forget", run("add", "The cat sleeps.").out.strip(), "--erase", "--yes")
    assert "shall be kept all the same, `mcp-memory add --reassert` stores it." in run("add", "The cat sleeps.").err
    assert run("add", "The cat sleeps.", "--reassert", "--json").json["status"] == "stored"


def test_what_was_added_is_the_latest_change(run: "Run") -> None:
    """U2.1: an undo retires it, and a restore brings it back; its history says when it was stored, and no more."""
    older = run("add", "The moon is full.").out.strip()
    run("edit", older, "--importance", "3", "--tag", "sky")
    added = run("add", "The cat sleeps.", "--json").json
    known = run("undo", "--json").json
    assert (known[0]["change"], known[0]["what"]) == (added["change"], f"Stored {added['id']} “The cat sleeps.”.")
    assert known[2]["what"] == f"Stored {older} “The moon is full.”."
    shown = run("show", older).out
    assert "stored (added by hand)" in shown
    assert "importance was 1; tags were none" in shown
    assert "retired" not in shown
    undone = run("undo", "--last").out
    assert undone.startswith(f"Change {added['change']} is undone: {added['id']}. What it did: Stored")
    assert undone.endswith(f"`mcp-memory restore {added['id']}` brings it back.\n")
    assert [each["id"] for each in run("list", "--json").json["results"]] == [older]
    assert run("restore", added["id"]).code == 0
    assert "Undo is final: to bring the change back, make it again." in run("undo", str(known[1]["change"])).out


def test_a_dash_reads_standard_input(run: "Run") -> None:
    """S7.1: as it stands, of several lines; what is no text is one line of complaint."""
    added = CliRunner().invoke(command_line, ["add", "-"], input="Zoë said:\nyes\n".encode())
    assert run("show", added.stdout.strip(), "--json").json["text"] == "Zoë said:\nyes"
    refused = CliRunner().invoke(command_line, ["add", "-"], input=b"\xff\xfe")
    assert (refused.exit_code, refused.stderr) == (1, "mcp-memory: Standard input is not UTF-8 text.\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--kind", "rumour"), "There is no kind 'rumour'; the kinds are fact"),
        (("--importance", "11"), "`importance` must be at most 10"),
        (("--details", "{"), "--details is not JSON"),
        (("--details", "[]"), "`details` must be an object"),
        (("--visibility", "all"), "`visibility` must be one of"),
        (("--occurred", "xyzzy"), "xyzzy"),
    ],
)
def test_what_cannot_be_is_one_line(run: "Run", options: tuple[str, ...], why: str) -> None:
    """S7.1."""
    ran = run("add", "Text.", *options)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert why in ran.err


def test_an_empty_text_is_refused(run: "Run") -> None:
    """S7.1."""
    assert "text is empty" in run("add", "  ").err


def test_what_never_ends_is_not_added(run: "Run") -> None:
    """X6.4: it is read as far as a text may go, and no further."""
    refused = CliRunner().invoke(command_line, ["add", "-"], input=b"x" * 4_000_001)
    assert refused.exit_code == 1
    assert refused.stderr == "mcp-memory: Standard input holds more than 1,000,000 characters; add it in parts.\n"


def test_a_guardrail_that_cannot_act_is_named_and_given_a_form(run: "Run") -> None:
    """U4.1: a detail that nothing reads is no form; --deny is one, beside the other details."""
    made = run("add", "Leave the build folder alone.", "--kind", "guardrail", "--details", '{"deny": "rm -rf build"}')
    some_id = made.out.strip()
    form = f"`mcp-memory edit {some_id} --deny 'rm -rf build/*'` gives it a form to deny"
    assert made.err == f"mcp-memory: Agents are told it, but it stops no call; {form}.\n"
    edited = run("edit", some_id, "--deny", "rm -rf build/*", "--details", '{"reason": "CI owns it"}', "--json").json
    asked = {"deny": "rm -rf build", "reason": "CI owns it", "pattern": ["rm -rf build/*"], "action": "block"}
    assert edited["details"] == asked
    told = run("add", "Push to no release.", "--kind", "guardrail", "--deny", "git push origin release*")
    assert told.err.startswith("mcp-memory: It denies calls of the agent ")
    assert f"`mcp-memory edit {told.out.strip()} --visibility user` has it deny all your agents" in told.err
    every = run("add", "Drop no table.", "--kind", "guardrail", "--deny", "dropdb *", "--visibility", "user")
    assert every.err.startswith("mcp-memory: It denies calls of all your agents, where the client has hooks")
    for refused in (run("add", "A fact.", "--deny", "rm"), run("edit", some_id, "--details", "[]")):
        assert (refused.code, len(refused.err.splitlines())) == (1, 1)


def test_what_a_new_record_may_replace_is_named(run: "Run") -> None:
    """R4: for people on stderr; --json has it by the names that agents know."""
    old = run("add", "The exporter listens on port 9000.").out.strip()
    new = run("add", "The exporter listens on port 9001.")
    replaces = f"`mcp-memory supersede {old} {new.out.strip()}` has this replace it"
    assert new.err == f"mcp-memory: Near it: {old}; {replaces}.\n"


@pytest.mark.parametrize("command", ["add", "edit"])
def test_the_help_names_the_details_that_a_kind_takes(run: "Run", command: str) -> None:
    """U2.1."""
    told = " ".join(run(command, "-h").out.split())
    assert "a decision takes reasons (a list of texts), alternatives (a list of texts)" in told

"""Which calls of tools meet which guardrails."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.domain.model.lifecycle import after_feedback, denies
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.retrieval.guardrails import (
    MOST_CHARACTERS,
    ToolCall,
    commands_of,
    forbidden_in,
    has_form,
    is_met,
    meeting,
)

MakeRecord = Callable[..., Record]


def shell(command: str) -> ToolCall:
    return ToolCall.of("Bash", {"command": command})


def on(tool: str, path: str) -> ToolCall:
    return ToolCall.of(tool, {"file_path": path, "content": "rm -rf /mnt/share", "limit": 3})


@pytest.mark.parametrize(
    ("text", "details", "has"),
    [
        ("Keep out.", {}, False),
        ("Keep out.", {"deny": "rm -rf build"}, False),
        ("Keep out.", {"pattern": "rm -rf build"}, True),
        ("Keep out.", {"trigger": "force push"}, True),
        ("Never use `git add .`", {"trigger": "push"}, False),
        ("Never use `git add .`", {}, True),
    ],
)
def test_a_guardrail_without_a_form_meets_no_call(text: str, details: dict[str, Any], has: bool) -> None:
    """U4.1: by a pattern, two words of a trigger, or what its text forbids."""
    assert has_form(text, details) is has


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /mnt/share",
        "rm -rf /mnt/share/old 2>/dev/null; true",
        "sudo rm -r -f '/mnt/share/a b'",
        "rm -fr build && FOO=1 /bin/rm -rfv /mnt/share/*",
        "cd /mnt\nrm -rf /mnt/share",
        "bash -lc 'cd /mnt; rm -rf /mnt/share'",
        "ssh web \"bash -c 'rm -rf /mnt/share'\"",
        "echo $(rm -rf /mnt/share)",
        "rm -rf /mnt/share 'an open quote",
    ],
)
def test_a_command_is_met_in_whatever_shape(command: str) -> None:
    """U4.1."""
    assert is_met("rm -rf /mnt/share", shell(command))
    assert is_met("Bash(rm -rf /mnt/share:*)", shell(command))
    assert is_met("rm -rf /mnt/*", shell(command))
    assert not is_met("Write(rm -rf /mnt/share)", shell(command))


@pytest.mark.parametrize(
    "command",
    [
        "rm -r /mnt/share",
        "rm -rf build",
        "rm -rf /mnt/shared",
        "ls -rf /mnt/share",
        "grep -rn 'rm -rf /mnt/share' docs",
        "git commit -m 'Never rm -rf /mnt/share'",
        "cat <<EOF > notes.md\nrm -rf /mnt/share\nEOF",
        "sed -i '' notes.md",
        "echo rm -rf /mnt/share",
        "",
        "   # rm",
    ],
)
def test_what_speaks_of_a_command_does_not_run_it(command: str) -> None:
    """U4.1."""
    assert not is_met("rm -rf /mnt/share", shell(command))


@pytest.mark.parametrize(
    ("pattern", "met", "passed"),
    [
        ("git push --force", "git push origin main --force", "git push --force-with-lease"),
        ("git push --force", "git push --force=yes", "git push; tar --force"),
        ("pnpm db:migrate --prod*", "pnpm db:migrate --production", "pnpm db:migrate --dry-run"),
        ("git add .", "git add .", "git add ./src"),
        ("npm *", "npm ci", "pnpm ci"),
    ],
)
def test_flags_and_words_count_one_by_one(pattern: str, met: str, passed: str) -> None:
    assert not is_met(pattern, shell(passed))
    assert is_met(pattern, shell(met))


def test_a_path_is_met_where_a_tool_changes_it() -> None:
    """U4.1."""
    for path in ("migrations/1.sql", "./migrations/1.sql", "/srv/app/migrations/1.sql"):
        assert is_met("migrations/*.sql", on("Edit", path))
        assert is_met("migrations", on("Write", path)) == ("app" in path or path.startswith(("m", ".")))
        assert not is_met("migrations/*.sql", on("Read", path)), "to look at it changes nothing"
        assert is_met("Read(migrations/*)", on("Read", path))
        assert not is_met("/migrations", on("Edit", path))
    assert not is_met("rm -rf /mnt/share", on("Write", "a.md")), "what is written may speak of anything"
    assert is_met("*(secrets/*)", on("mcp__files__read_file", "secrets/key"))
    assert is_met("WebFetch()", ToolCall.of("WebFetch", {"url": "https://example.org"}))
    assert not is_met("", on("Edit", "a.md"))
    assert is_met("rm 'notes", shell('rm "\'notes"')), "a quote without an end is a letter"
    assert is_met("b.md", ToolCall.of("MultiEdit", {"paths": ["a.md", "b.md", 3]}))


def test_a_trigger_is_met_by_all_its_words_in_one_command(make_record: MakeRecord) -> None:
    """U4.1."""

    def met(trigger: str, call: ToolCall, **details: Any) -> str | None:
        return meeting(make_record(kind="censor", details={"trigger": trigger, **details}), call)

    forced = shell("git push --force origin main")
    assert met("force push to main", forced) == "words"
    assert met("force push to main", shell("git fetch --force origin main && git push")) is None
    assert met("force push to main", shell("git commit -m 'force push to main'")) is None
    assert met("push", forced) is None, "one word would meet half of all commands"
    assert met("edits of the billing schema", on("Edit", "src/billing/schema_edits.py")) == "words"
    assert met("force push to main", forced, pattern=["git push -f"]) is None, "patterns count alone"
    assert met("", forced, pattern="git push --force") == "pattern"


RULES = {
    "Never use `git add .` or `git add -A` — stage specific files only.": ["git add .", "git add -A"],
    "Never run `git reset --hard` on the server without backing up `data/trades.db` first.": ["git reset --hard"],
    "Always use `npx prisma db push`. Never run `npx prisma generate` alone.": ["npx prisma generate"],
    "Do not commit `.env`, database files, or build artifacts.": [],
    "**Never** edit anything in `.dart_tool/`, `build/`.": [".dart_tool/", "build/"],
    "Don't touch `git checkout -- but.py`, use `git stash` instead of `git clean`.": ["git checkout -- but.py"],
    "Never git push --force to main.": ["git push --force"],
}


@pytest.mark.parametrize("text", RULES)
def test_a_text_forbids_what_it_quotes_behind_never(text: str) -> None:
    """Sentences as public repositories have them."""
    assert [each.pattern for each in forbidden_in(text)][: len(RULES[text])] == RULES[text]
    assert RULES[text] or not forbidden_in(text)


def test_a_text_without_a_trigger_is_met_by_what_it_forbids(make_record: MakeRecord) -> None:
    rule = make_record(kind="censor", text="Never rm -rf on a share.")
    assert meeting(rule, shell("rm -rf /mnt/share/old")) == "text"
    assert meeting(rule, shell("rm -rf node_modules")) is None
    assert meeting(rule, shell("ls share; rm -rf node_modules")) == "text", "words are looked for in any command"
    assert meeting(make_record(kind="censor", text="Be kind."), shell("rm -rf /")) is None


def test_only_ones_own_block_that_was_not_wrong_denies(make_record: MakeRecord) -> None:
    """U4.1."""
    block = make_record(kind="censor", details={"action": "block"})
    assert denies(block, own=True)
    assert not denies(block, own=False)
    assert not denies(make_record(kind="censor"), own=True)
    wrong = after_feedback(block, "false_positive")
    assert not denies(wrong, own=True)
    assert denies(after_feedback(wrong, "triggered"), own=True)


def test_reading_a_call_is_bounded() -> None:
    deep = "rm -rf /x"
    for _ in range(8):
        deep = f"bash -c {json.dumps(deep)}"
    assert len(list(commands_of(deep))) <= 8
    assert len(shell("a;" * MOST_CHARACTERS).commands) == 200
    assert not is_met("*" * 40 + "b", shell("a" * MOST_CHARACTERS))

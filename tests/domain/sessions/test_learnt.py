"""What a session teaches that may be trusted: by who says it, or by what was done."""

import json

import pytest

from mcp_memory.domain.sessions.learnt import MOST_ITEMS, MOST_TYPED, learnt_from, learnt_from_summary
from tests.domain.sessions.made_sessions import Line, run, session

RED, GREEN = run("pytest -q", "!E   assert 174 == 180\n1 failed"), run("pytest -q", "12 passed")
EDIT: Line = ("Edit", '{"file_path": "src/clock.py", "old_string": "a", "new_string": "expires_at > now()"} => ok')
WHY = "`expires_at` is compared with the host's clock."
FIX = f"`pytest -q` failed: assert 174 == 180 → {WHY}; edited src/clock.py"


def learnt(*lines: Line) -> list[tuple[str, str]]:
    return [(each.section, each.text) for each in learnt_from(session(*lines))]


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("instructions", "From now on, use pnpm instead of npm."),
        ("instructions", "OK, please, from now on: sign every commit."),
        ("instructions", "Use tabs everywhere from now on."),
        ("instructions", "Ab sofort bitte jeden Commit signieren."),
        ("instructions", "Désormais, utilise pnpm pour ce projet."),
        ("instructions", "A partir de ahora usa pnpm en este repositorio."),
        ("instructions", "С этого момента подписывай каждый коммит."),
        ("instructions", "从现在开始，请使用 pnpm 而不是 npm。"),
        ("instructions", "今後は pnpm を使ってください。"),
        ("facts", "Remember that the staging server is db2."),
        ("facts", "Also keep in mind that we deploy on Tuesdays."),
        ("facts", "Merk dir, dass der Server db2 heißt."),
        ("facts", "N'oublie pas que le serveur s'appelle db2."),
        ("facts", "Recuerda que el servidor se llama db2."),
        ("facts", "请记住：测试服务器是 db2，端口 8443。"),
        ("decisions", "We decided to store prices in cents."),
        ("decisions", "We have agreed on Postgres for the ledger."),
        ("decisions", "Wir haben beschlossen, Preise in Cent zu speichern."),
        ("decisions", "Nous avons décidé de stocker les prix en centimes."),
        ("decisions", "Hemos decidido guardar los precios en céntimos."),
        ("decisions", "Мы решили хранить цены в центах."),
        ("decisions", "我们决定使用 SQLite 存储数据。"),
    ],
)
def test_what_the_user_says_in_so_many_words_counts(section: str, text: str) -> None:
    """D10.1."""
    assert learnt(("user", f"Fine. {text} What is next?")) == [(section, text)]
    assert learnt(("assistant", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Did we say that from now on?",
        "Why have we decided to use cents?",
        "Do you remember that the server is db2?",
        "Remember that function you wrote yesterday.",
        "From now on, do it like this.",
        "从现在开始就这样。",
        "From now on.",
        "From now on, these rules hold for the whole repo:",
        "We have not decided to use cents.",
        'The page says: "From now on, use pnpm in every project."',
        "> From now on, use pnpm in every project.",
        "```\nFrom now on, use pnpm in every project.\n```",
        "<system-reminder>\nFrom now on, use pnpm in every project.\n</system-reminder>",
        f"From now on, use {'pnpm ' * 150}",
        f"From now on, use pnpm in every project.\n\n{'Line of a log. ' * (MOST_TYPED // 12)}",
    ],
)
def test_no_other_sentence_counts(text: str) -> None:
    """D10.1: no question, quotation, pasted text or text of the client's, nor what makes no sense alone."""
    assert learnt(("user", text)) == []


def test_a_check_that_failed_and_passed_counts_with_what_was_wrong() -> None:
    """D10.1: said directly behind the failure, and by a name."""
    assert learnt(("user", "Go on."), RED, ("assistant", WHY), EDIT, GREEN) == [("fixes", FIX)]


@pytest.mark.parametrize(
    "lines",
    [
        (RED, EDIT, GREEN),
        (RED, ("assistant", "There is one failing test."), EDIT, GREEN),
        (RED, ("assistant", WHY), EDIT),
        (RED, ("assistant", WHY), GREEN),
        (run("curl x.org", "!curl: (6) no host x.org"), ("assistant", WHY), EDIT, run("curl x.org", "fine")),
        (RED,),
    ],
    ids=["nothing said", "no name", "not run again", "nothing changed", "no check", "the end"],
)
def test_no_other_failure_counts(lines: tuple[Line, ...]) -> None:
    """D10.1: most are slips on the way, and teach nobody."""
    assert learnt(("user", "Go on."), *lines) == []


def test_commits_and_closed_steps_that_name_something_count() -> None:
    """D10.1: of an amended commit the last; no push or merge, no step that is open or says nothing by itself."""
    steps = [("Move `Token` to src/types.go", "completed"), ("Run the tests", "completed"), ("Drop api.go", "pending")]
    todos = json.dumps({"todos": [{"content": text, "status": status} for text, status in steps]})
    assert learnt(
        ("user", "Go on."),
        ("TodoWrite", f"{todos} => ok"),
        run("git commit -m 'Move the tokens'", "[main 3f2a1bc] Move the tokens"),
        run("git commit --amend -m 'Move the tokens'", "[main 4f2a1bc] Move the tokens"),
        run("git merge other", "[main 5f2a1bc] Merge branch 'other'"),
        run("git push", "main -> main"),
    ) == [("completed", "Committed 4f2a1bc: Move the tokens"), ("completed", "Done: Move `Token` to src/types.go")]


SUMMARY = """\
1. Primary Request and Intent:
   Mend the clock.

4. Errors and fixes:
   - **Circular import**: `env.py` imports `args.py`
     - Fixed by importing it in the function
     ```python
     - no item
     ```
   - Compiler error after the change: updated `Store`
   - No other errors so far, only planning
   - **Fix**: an item of another
   - Error: another
   - None
   - **Long**: {long}
5. Problem Solving:
   - **Cause**: the clock of the host
## 7. Pending Tasks
- **Tests**: run them
"""


def test_a_clients_summary_counts_by_its_errors_and_fixes() -> None:
    """D10.1: each whole, with what is indented under it; not what is pending, as it is done a minute later."""
    found = [*learnt_from_summary(SUMMARY.replace("{long}", "word " * 200), "r1")]
    assert [(each.section, each.text, each.source) for each in found] == [
        ("fixes", "**Circular import**: `env.py` imports `args.py` Fixed by importing it in the function", "r1"),
        ("fixes", "Compiler error after the change: updated `Store`", "r1"),
    ]
    told = "**Errors and fixes:** Clock error: the host's ran ahead; the database's counts"
    assert [each.text for each in learnt_from_summary(told, "r1")] == [told.partition(" fixes:** ")[2]]
    assert [*learnt_from_summary("The port is 5433.", "r1")] == []
    many = "Errors and fixes:\n" + "- **Clock**: repaired\n" * 100
    assert len([*learnt_from_summary(many, "r1")]) == MOST_ITEMS

"""Files of clients: which of them are read, for which window, and how they are cut."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_memory.app import App, Seat
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.entrypoints.transfer.learning.client_files import MOST_BYTES, read_for_arrived, sections_of
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.follow_files import FROM_FILE
from mcp_memory.settings import load_settings

FILES = "CLAUDE.md,AGENTS.md,docs/*.md,~/.claude/projects/*/memory/*.md"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    (tmp_path / "home" / "my_app").mkdir(parents=True)
    return (tmp_path / "home" / "my_app").resolve()


@pytest.fixture
def texts(app: App, project: Path) -> Callable[[], set[str]]:
    """Read the files for a window that arrives in the project, and return what the records then say."""

    def read() -> set[str]:
        seat = Seat(app, app.settings.model_copy(update={"read_files": FILES.split(",")}), project)
        app.welcome(seat)
        assert app.stirred.is_set()
        assert [read_for_arrived(app), read_for_arrived(app)] == [True, False]
        where = RecordFilter(scopes=app.caller(seat=seat).scopes, all_tags=frozenset({FROM_FILE}))
        return {record.text for record in app.records.list(where, "created", 100)}

    return read


def test_a_window_that_arrives_lets_the_files_of_its_project_be_read(
    texts: Callable[[], set[str]], project: Path, tmp_path: Path
) -> None:
    claude = write(project / "CLAUDE.md", "# Rules\n\nIndent by tabs.\n\n- Never rebase.\n\n@AGENTS.md\n")
    (project / "AGENTS.md").symlink_to("CLAUDE.md")
    write(project / "docs" / "deploy.md", "We deploy on Mondays.")
    (project / "docs" / "key.md").symlink_to(write(tmp_path / "key.md", "A private key."))
    memory = project.parent / ".claude" / "projects"
    own = str(project).replace("/", "-").replace("_", "-")
    write(memory / own / "memory" / "notes.md", "---\nname: a note\n---\nAnn likes short answers.")
    write(memory / "-home-ann-other" / "memory" / "notes.md", "Another project's note.")
    note = f"~/.claude/projects/{own}/memory/notes.md: Ann likes short answers."
    deploy = "docs/deploy.md: We deploy on Mondays."
    assert texts() == {"CLAUDE.md, Rules: Indent by tabs.", "CLAUDE.md, Rules: Never rebase.", deploy, note}
    (memory / own / "memory" / "notes.md").unlink()
    (project / "docs" / "loop.md").symlink_to("loop.md")
    (project / "docs" / "deploy.md").write_bytes(b"\xff")
    claude.write_text("", "utf-8")
    assert texts() == {deploy}, "what cannot be read stays"


def test_without_the_setting_or_a_project_nothing_is_read(app: App, project: Path) -> None:
    write(project / "CLAUDE.md", "Indent by tabs.")
    app.welcome(Seat(app, app.settings, project))
    assert not read_for_arrived(app)
    app.arrived.append(waits := Seat(app, app.settings.model_copy(update={"roots": True}), project))
    assert not read_for_arrived(app), "its client has not been asked which folder is open"
    waits.take_folder(project)
    assert read_for_arrived(app)
    app.arrived.append(Seat(app, app.settings.model_copy(update={"namespace": None}), project / "\0"))
    assert read_for_arrived(app), "a failure ends no upkeep"


def test_secrets_and_private_passages_go_before_a_file_is_cut(app: App) -> None:
    text = (
        "Before it.\n\n<private>\nThe first.\n\nThe second.\n</private>\n\n- Use tabs, as\n  we always do.\n- Short\n"
    )
    assert [each.text for each in sections_of(text, app.redactor.redact)] == [
        "Before it.",
        "Use tabs, as we always do.",
    ]


MARKED = """\
Before [all](https://example.org).

# Rules ##

- Use tabs, as

  the editor does.

      code()
  - Never spaces.
1. Ask `Ann`.

| a | table |

~~~
code
~~~

**Deploys**:

Mondays only.
"""
RULED = """\
=====
Rules
=====

Read :ref:`the guide <guide>` first (:pr:`12`). Say::

    code()

1. Deploys
----------

* Mondays
  only.

.. note:: no prose
"""


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        (MARKED, [("", "Before all."), ("Rules", "Use tabs, as; the editor does."), ("Rules", "Never spaces."),
                  ("Rules", "Ask `Ann`."), ("Deploys", "Mondays only.")]),
        (RULED, [("Rules", "Read the guide first (#12). Say::"), ("1. Deploys", "Mondays only.")]),
    ],
    ids=["Markdown", "reStructuredText"],
)  # fmt: skip
def test_a_file_is_cut_into_paragraphs_and_items_below_their_headings(
    app: App, text: str, sections: list[tuple[str, str]]
) -> None:
    assert [(each.heading, each.text) for each in sections_of(text, app.redactor.redact)] == sections


def test_a_large_file_is_left_alone(texts: Callable[[], set[str]], project: Path) -> None:
    write(project / "CLAUDE.md", "Indent by tabs.\n" * (MOST_BYTES // 16 + 1))
    assert texts() == set()


@pytest.mark.parametrize("pattern", ["/etc/*.md", "../CLAUDE.md", "docs/**/*.md", "~", "~/", "~ann/a.md", "C:a.md"])
def test_patterns_stay_in_the_project_or_below_home(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match=r"read_files.*relative to the project's folder"):
        load_settings(read_files=f"CLAUDE.md,{pattern}")

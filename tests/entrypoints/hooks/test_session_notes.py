import os
import stat
import sys
from pathlib import Path

import pytest

from mcp_memory.entrypoints.hooks.session_notes import Noted, SessionNotes, failed_hooks
from mcp_memory.locations import FAILURES_FILE, NOTES_FOLDER


def test_notes_are_read_by_the_next_process(tmp_path: Path) -> None:
    notes = SessionNotes(tmp_path, "s1")
    assert (notes.noted.folder, notes.noted.namespace, notes.noted.fed_until, notes.written_at) == ("", "", 0, 0.0)
    assert notes.given() == frozenset()
    notes.write(Noted(folder="/work", namespace="project", fed_until=120))
    notes.add_given(["r000001", "r000002"])
    notes.add_given(["r000003"])
    again = SessionNotes(tmp_path, "s1")
    assert (again.noted.folder, again.noted.namespace, again.noted.fed_until) == ("/work", "project", 120)
    assert again.written_at > 0
    assert again.given() == {"r000001", "r000002", "r000003"}
    again.forget_given()
    assert again.given() == frozenset()
    assert SessionNotes(tmp_path, "s2").noted.namespace == ""


@pytest.mark.skipif(sys.platform == "win32", reason="profiles are private by their own access lists")
def test_only_their_owner_may_read_them(tmp_path: Path) -> None:
    """S4.3."""
    notes = SessionNotes(tmp_path, "s1")
    notes.write(Noted(folder="/work", namespace="project", fed_until=1))
    notes.add_given(["r000001"])
    assert stat.S_IMODE((tmp_path / NOTES_FOLDER).stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / NOTES_FOLDER).iterdir()} == {0o600}


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", '{"folder": 3, "namespace": 7, "fed_until": ""}', '{"fed_until": -3}']
)
def test_damaged_notes_say_nothing(tmp_path: Path, damaged: str) -> None:
    notes = SessionNotes(tmp_path, "s1")
    notes.write(Noted(folder="/work", namespace="project", fed_until=1))
    (file,) = (tmp_path / NOTES_FOLDER).iterdir()
    file.write_text(damaged, "utf-8")
    assert (notes.noted.folder, notes.noted.namespace, notes.noted.fed_until) == ("", "", 0)


def test_notes_that_cannot_be_written_are_not(tmp_path: Path) -> None:
    (tmp_path / NOTES_FOLDER).write_text("in the way", "utf-8")
    notes = SessionNotes(tmp_path, "s1")
    notes.write(Noted(folder="/work", namespace="project", fed_until=1))
    notes.add_given(["r000001"])
    notes.forget_given()
    notes.prune()
    assert (notes.noted.namespace, notes.given()) == ("", frozenset())


def test_notes_on_sessions_of_long_ago_are_pruned(tmp_path: Path) -> None:
    old, new = SessionNotes(tmp_path, "old"), SessionNotes(tmp_path, "new")
    old.write(Noted(folder="/work", namespace="project", fed_until=1))
    (file,) = (tmp_path / NOTES_FOLDER).iterdir()
    os.utime(file, (0, 0))
    new.write(Noted(folder="/work", namespace="project", fed_until=2))
    new.prune()
    assert (old.noted.fed_until, new.noted.fed_until) == (0, 2)


def test_failures_are_counted_by_the_hook_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    """U1.1."""
    assert failed_hooks(tmp_path, 0.0) == {}
    (tmp_path / NOTES_FOLDER).mkdir()
    lines = "90 Stop\n100 Stop\n100 SessionStart\n101 Stop\nsoon Stop\n102 <b>\n103\n-4 Stop"
    (tmp_path / NOTES_FOLDER / FAILURES_FILE).write_text(lines, "utf-8")
    assert failed_hooks(tmp_path, 100.0) == {"Stop": 2, "SessionStart": 1}

"""Who has access: tokens made and ended, agents and people, trusted folders; each as far as one may know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.projects import Project
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.entrypoints.page import access
from mcp_memory.entrypoints.page.sign_in import Doors, PageSessions, Visitor
from mcp_memory.entrypoints.server.identity import RequestSender
from mcp_memory.errors import InvalidRequest, NotFound
from tests.entrypoints.page.conftest import NAMESPACE, asked, memory_of, words_of

NEW = {"name": "ide", "agent": "bob", "person": "", "namespaces": f"{NAMESPACE}\ntoys", "right": "write", "days": ""}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    made = memory_of(tmp_path / "data")
    made.remember([NewRecord(text="The till is by the door.")], made.caller())
    yield made
    made.close()


def test_a_token_is_made_its_secret_shown_once_and_it_is_revoked(memory: App) -> None:
    """U1.1: as `mcp-memory tokens` does."""
    page = asked(memory, access.add_token, form=NEW | {"days": "30"})
    [secret] = re.findall(r"mcpm_[\w-]+", page)
    token = memory.tokens.recognise(secret)
    assert token
    assert token.grant == Grant(agent="bob", person="bob", namespaces=(NAMESPACE, "toys"), right="write")
    assert token.expires_at
    assert token.expires_at - token.created_at == pytest.approx(30 * 86_400, abs=5)
    assert f'id="secret" tabindex="0">{secret}</code>' in page
    assert 'data-copies="secret" hidden' in page  # Without scripts the text is selected as a whole.
    page = asked(memory, access.show_access)
    assert '<option value="read" selected>' in page
    assert secret not in page
    assert token.digest not in page
    assert "ide valid may read and change agent bob in shop, toys" in words_of(page)
    asked(memory, access.revoke_token, form={"name": "ide"})
    assert memory.tokens.recognise(secret) is None
    assert "ide revoked" in words_of(asked(memory, access.show_access))
    with pytest.raises(NotFound):
        asked(memory, access.revoke_token, form={"name": "ide"})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"right": "all"}, "Choose what the token may do"),
        ({"agent": "ann"}, "the name of this machine"),
        ({"namespaces": " \n"}, "Name at least one project"),
        ({"name": "a/b"}, "must not hold a slash"),
        ({"days": "0"}, "valid for 1 to"),
        ({"days": "000012345678"}, "valid for 1 to"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused_and_the_form_keeps_what_was_written(
    memory: App, wrong: dict[str, str], why: str
) -> None:
    page = asked(memory, access.add_token, form=NEW | wrong)
    assert why in words_of(page)
    assert "mcpm_" not in page
    assert '<details class="fold" data-key="a" open>' in page
    assert 'value="bob"' in page or "agent" in wrong
    assert memory.tokens.all() == []


def test_agents_are_told_with_their_people_and_what_they_wrote(memory: App) -> None:
    asked(memory, access.add_token, form=NEW | {"person": "Eva"})
    page = words_of(asked(memory, access.show_access))
    assert "ann (and what you add here) you 1 none" in page
    assert "bob Eva 0 1" in page


def test_an_administrator_knows_the_tokens_of_the_own_projects_alone(memory: App) -> None:
    """S4.1: and of any other it hears what it hears of one that is not there."""
    asked(memory, access.add_token, form=NEW)
    asked(memory, access.add_token, form=NEW | {"name": "own", "agent": "cy", "namespaces": NAMESPACE})
    chief = Grant(agent="chief", person="chief", namespaces=(NAMESPACE,), right="admin")
    page = words_of(asked(memory, access.show_access, grant=chief))
    assert "agent cy" in page
    assert "bob" not in page
    assert "Trusted folders" not in page
    for name in ("ide", "nobody's"):
        with pytest.raises(NotFound, match="no such token to be revoked here"):
            asked(memory, access.revoke_token, grant=chief, form={"name": name})
    with pytest.raises(NotFound):
        asked(memory, access.add_token, grant=chief, form=NEW | {"name": "third"})
    asked(memory, access.revoke_token, grant=chief, form={"name": "own"})
    assert [token.name for token in memory.tokens.all() if token.revoked_at is None] == ["ide"]


def test_only_who_has_the_files_looks_at_another_project_without_a_token_and_only_at_one_that_is_there(
    memory: App,
) -> None:
    """S4.1."""
    sessions = PageSessions()
    doors = Doors(memory, sessions, lambda headers: True)
    toys = replace(memory.caller(), namespace="toys")
    memory.remember([NewRecord(text="The kite is red.")], toys)
    sender = RequestSender(grant=None)
    for is_owner, namespace, is_refused in (
        (True, "toys", False), (True, NAMESPACE, False), (True, "nowhere", True), (False, "toys", True),
    ):  # fmt: skip
        visitor = Visitor(sender=sender, session_id=sessions.begin("local"), is_owner=is_owner)
        with pytest.raises(InvalidRequest) if is_refused else nullcontext():
            doors.look_at(visitor, namespace)
        found = sessions.find(visitor.session_id)
        assert found
        assert found.namespace == ("" if is_refused else namespace)


def test_trust_in_a_folder_is_withdrawn(memory: App, tmp_path: Path) -> None:
    folder = str(tmp_path / "clone")
    project = Project(folder=folder, root=folder, own="clone-1", claim=NAMESPACE, repository="r", is_proven=True)
    memory.trust.trust(project)
    page = words_of(asked(memory, access.show_access))
    assert f"{folder} uses {NAMESPACE}" in page
    assert "gone" in page
    chief = Grant(agent="chief", person="chief", namespaces=(NAMESPACE,), right="admin")
    with pytest.raises(NotFound):
        asked(memory, access.revoke_folder, grant=chief, form={"folder": folder})
    asked(memory, access.revoke_folder, form={"folder": folder})
    assert memory.trust.folders() == []
    with pytest.raises(NotFound):
        asked(memory, access.revoke_folder, form={"folder": folder})

"""Who may read what."""

from dataclasses import replace
from typing import Any

import pytest

from mcp_memory.domain.model.scopes import USER_SCOPE, Caller, RecordFilter, by_partition, scope_key, tags_asked

CALLER = Caller(namespace="shop", agent="ada", session_id="s1", inherited=("base",))


def test_a_caller_reads_its_project_its_own_part_its_person_and_what_it_inherits() -> None:
    """S4.1: and nothing private of an inherited namespace."""
    assert CALLER.scopes == ("shared/shop", "private/ada/shop", USER_SCOPE, "shared/base")


def test_scope_keys_of_different_readers_differ() -> None:
    """S4.1: agent names hold no slash, so that none can spell another's key."""
    keys = [
        scope_key("shared", "shop", "ada"),
        scope_key("private", "shop", "ada"),
        scope_key("private", "shop", "bob"),
        scope_key("private", "ada/shop", "bob"),
        scope_key("user", "shop", "ada"),
        scope_key("user", "shop", "ada", "eve"),
        scope_key("user", "shop", "ada", "max"),
    ]
    assert len(set(keys)) == len(keys)
    assert scope_key("user", "other", "bob") == USER_SCOPE
    assert scope_key("user", "other", "bob", "eve") == scope_key("user", "shop", "ada", "eve")


def test_a_partition_has_the_shared_and_the_private_scopes_of_a_namespace() -> None:
    scopes = ("shared/shop", "user/eve", "private/ada/shop", "shared/base", USER_SCOPE)
    assert by_partition(scopes, str) == {
        "namespace/shop": ["shared/shop", "private/ada/shop"], "user/eve": ["user/eve"],
        "namespace/base": ["shared/base"], USER_SCOPE: [USER_SCOPE],
    }  # fmt: skip


def test_a_caller_who_works_for_somebody_reads_that_persons_records_in_place_of_the_owners() -> None:
    """S4.1, S4.2."""
    eves = replace(CALLER, person="eve")
    assert eves.scopes == ("shared/shop", "private/ada/shop", "user/eve", "shared/base")
    assert [eves.scope(visibility) for visibility in ("shared", "private", "user")] == [*eves.scopes[:3]]


def test_a_named_session_speaks_for_itself() -> None:
    """T3.2: none or an empty name keeps the present one."""
    assert CALLER.in_session("plan") == replace(CALLER, session_id="plan", named_session=True)
    assert CALLER.in_session(None) is CALLER
    assert CALLER.in_session("") is CALLER


@pytest.mark.parametrize(
    ("fields", "is_selective"),
    [
        ({"own_of": "ann"}, True),
        ({"authors": frozenset({"ann"})}, True),
        ({"statuses": frozenset({"new"})}, True),
        ({}, False),
        ({"exclude": frozenset({"r1"})}, False),
        ({"since": 0.0}, True),
        ({"until": 0.0}, True),
        ({"only": frozenset[str]()}, True),
        ({"tags": frozenset({"a"})}, True),
        ({"without_tags": frozenset({"a"})}, True),
        ({"hidden_branches": frozenset({"t1"})}, False),
        ({"isolated_tasks": frozenset({"t1"})}, True),
        ({"include_inactive": True}, True),
        ({"pinned": True}, True),
    ],
)
def test_a_filter_is_selective_where_it_narrows_more_than_scope(fields: dict[str, Any], is_selective: bool) -> None:
    """B1.4: the beginning of 1970 and the empty selection narrow too."""
    assert replace(RecordFilter(scopes=("shared/shop",)), **fields).is_selective is is_selective


@pytest.mark.parametrize(
    ("asked", "admitted"),
    [
        ((), ["", "open", "open private", "-1 open"]),
        (("open", "private"), ["open", "open private", "-1 open"]),
        (("+open", "+private"), ["open private"]),
        (("open", "-private"), ["open", "-1 open"]),
        (("-open",), [""]),
        (("+-1",), ["-1 open"]),
        (("--1",), ["", "open", "open private"]),
        (("+",), []),
    ],
)
def test_several_tags_mean_any_and_a_sign_requires_or_excludes_one(asked: tuple[str, ...], admitted: list[str]) -> None:
    """S3.1: a tag that begins with a sign takes one more."""
    where = RecordFilter(scopes=("shared/shop",), **tags_asked(asked))
    assert [tags for tags in ("", "open", "open private", "-1 open") if where.admits(tags.split())] == admitted

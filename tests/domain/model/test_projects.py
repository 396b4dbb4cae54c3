"""Which namespace a git remote stands for, and which one is a folder's alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.projects import (
    LOCAL,
    MAX_NAMESPACE,
    Membership,
    own_namespace,
    remote_namespace,
    short_name,
)

OWN = re.compile(r"[^/\\\s:]+-[a-z2-7]{16}")


def resolved(path: str) -> str:
    """Real paths as in the folder /work/shop."""
    return {"../bare.git": "/work/bare.git", "../other": "/work/other", "../other/.git": "/work/other/.git"}.get(
        path, path
    )


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/Team/Shop.git",
        "https://example.org/team/shop/",
        "https://EXAMPLE.ORG./team//shop",
        "https://example.org:443/team/shop",
        "http://example.org:80/team/shop",
        "https://ann:hunter2@example.org/team/shop/",
        "https://hunter2@example.org/team/shop?token=hunter2#hunter2",
        "https://example.org/team/%73hop",
        "ssh://git@example.org:22/team/shop",
        "git+ssh://git@example.org/team/shop",
        "git://example.org:9418/team/shop.git",
        "git@example.org:team/shop.git",
        "git@example.org:/team/shop?token=hunter2",
        "example.org:team/shop",
    ],
)
def test_one_remote_has_one_namespace_however_it_is_written(address: str) -> None:
    """S4.1, X2.1, X2.3: without user, password, query and fragment."""
    assert remote_namespace(address, resolved) == "example.org/team/shop"


@pytest.mark.parametrize(
    ("address", "namespace"),
    [
        ("https://example.org:8443/team/shop", "example.org:8443/team/shop"),
        ("ssh://git@example.org:2222/team/shop", "example.org:2222/team/shop"),
        ("https://example.org:0/team/shop", "example.org:0/team/shop"),
        ("https://[::1]:8080/shop", "[::1]:8080/shop"),
        ("git@[::1]:shop", "[::1]/shop"),
        ("https://example.org/team/a%2Fb", "example.org/team/a%2fb".replace("%2f", "%2F")),
        ("https://example.org/My%20Team/shop", "example.org/my%20team/shop"),
        ("git@example.org:my%20team/shop", "example.org/my%2520team/shop"),
        ("https://example.org/gr\u00fc\u00dfe", "example.org/gr%C3%BC%C3%9Fe"),
        ("https://example.org/gru\u0308\u00dfe", "example.org/gr%C3%BC%C3%9Fe"),
        ("https://example.org/\u0455hop", "example.org/%D1%95hop"),
        ("https://example.org/a:b", "example.org/a%3Ab"),
    ],
)
def test_what_tells_two_remotes_apart_stays(address: str, namespace: str) -> None:
    """X2.1: a port, an encoded slash, a letter that only looks like another one."""
    assert remote_namespace(address, resolved) == namespace


@pytest.mark.parametrize(
    "address",
    [
        "", "https://example.org", "https://example.org/", "https://", "https:///team/shop",
        "https://../team/shop", "https://./shop", "https://a..b/shop", "https://-x/shop", "https://ex ample/shop",
        "https://example.org/team/../shop", "https://example.org/%2e%2e/shop", "https://example.org/./shop",
        "https://example.org/.git", "https://example.org/team/.git", "https://example.org/%00", "https://example.org/%0a",
        "https://example.org/%e2%80%ae", "https://example.org/\u202eshop", "https://example.org/%ff", "a\nb", "\x1b[2J",
        "https://example.org:99999/shop", "https://example.org:x/shop", "https://[::1/shop", "https://b\u00fccher.example/shop",
        "ann:hunter2@example.org:team/shop", "https://ann:12/hunter2@example.org/shop", "https://ann:hunter2/x@example.org/s",
        "https://ann:1?hunter2@example.org/shop", "https://ann:hunter2#1@example.org/shop",
        "ext::sh -c hunter2", "codecommit::eu://shop", ":shop", "git@:shop", "git@host:", "git@host:..",
        "//server/share/shop", "\\\\server\\share", "file://server/share", "file:////server/share", "file://",
        "/\\server\\share",
        "file:///%00", "https://example.org/" + "a" * MAX_NAMESPACE, "https://example.org/" + "a/" * 5_000,
    ],
)  # fmt: skip
def test_what_is_no_sound_address_stands_for_no_namespace(address: str) -> None:
    """X2.1, X2.3: nor does a secret that stands where none belongs enter one, nor is another machine asked."""
    assert remote_namespace(address, _must_not_ask) == ""


def _must_not_ask(path: str) -> str:
    raise AssertionError(f"{path} was looked at")


@given(st.text(), st.sampled_from(["https://h/", "git@h:", "ssh://u:p@h:1/", "file://", "", "https://"]))
def test_no_address_spells_the_namespace_of_a_folder(rest: str, before: str) -> None:
    """X2.1: it is empty, or a short printable name with a slash in it, which no folder's own name has."""
    namespace = remote_namespace(before + rest, lambda path: f"/real/{path}")
    assert len(namespace) <= MAX_NAMESPACE
    assert namespace.isprintable()
    assert not namespace or "/" in namespace
    assert namespace == namespace.strip()
    assert not {".", ".."} & set(namespace.split("/"))
    assert remote_namespace(before + rest, lambda path: "") in (namespace, "")


@given(st.text(), st.text())
def test_a_folders_own_namespace_is_nobody_elses(folder: str, other: str) -> None:
    """X2.1: 80 bits of a digest tell folders apart, a name without slash and blank tells them from remotes."""
    namespace = own_namespace(f"/{folder}")
    assert len(namespace) <= MAX_NAMESPACE
    assert OWN.fullmatch(namespace)
    assert (namespace == own_namespace(f"/{other}")) == (folder == other)


def test_names_that_show_nothing_are_shown_as_something() -> None:
    assert own_namespace("/").startswith("root-")
    assert own_namespace("C:\\work\\my shop\u202e").startswith("my-shop--")
    assert own_namespace("/work/\udcff").startswith("--")


def test_a_remote_that_is_a_folder_is_known_by_where_it_lies() -> None:
    """X2.1: not by how it is written."""
    names = {
        remote_namespace(address, resolved)
        for address in ("../bare.git", "/work/bare.git", "file:///work/bare.git", "file://localhost/work/bare.git")
    }
    assert names == {f"@local/{own_namespace('/work/bare.git')}"}
    assert remote_namespace("../other", resolved) == remote_namespace("../other/.git", resolved)
    assert remote_namespace("../other", resolved) != next(iter(names))
    assert remote_namespace("C:\\bare", resolved) == remote_namespace("file:///C:\\bare", resolved) != ""
    assert remote_namespace("../gone", lambda path: "") == ""
    assert remote_namespace("default", resolved) != "default"


def test_only_a_refused_folder_is_refused() -> None:
    assert Membership(namespace="a", state="refused").is_refused
    assert not Membership(namespace="a", state="free").is_refused


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/acme/shop;token=abc", "github.com/acme/shop"),
        ("https://github.com/\u212ait/shop", ""),
        ("https://\u212aernel.org/shop", ""),
    ],
)
def test_parameters_and_letters_that_only_become_ascii_are_left_out(address: str, name: str) -> None:
    """X2.3: the Kelvin sign is a k in lower case."""
    assert remote_namespace(address, lambda path: path) == name


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        (own_namespace("/srv/my shop"), "my-shop"),
        ("github.com/acme/shop", "shop"),
        (f"{LOCAL}/{own_namespace('/srv/shop')}", "shop"),
        ("host/a%20b", "a b"),
        ("billing-2025", "billing-2025"),
        ("odd/", "odd/"),
    ],
)
def test_people_know_a_project_by_the_name_of_its_folder(namespace: str, name: str) -> None:
    """U1.1: the digest that keeps two of one name apart is no part of it."""
    assert short_name(namespace) == name

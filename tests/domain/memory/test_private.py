"""What its writer marked as private is left out; what only talks about the marks stays."""

import time

import pytest

from mcp_memory.domain.memory.private import is_private, without_private


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("<private>a<private>b</private>my password</private> x", "[private] x"),
        ("<private>a; write `<private>`.</private> b </private>", "[private]"),
        ("Fix it. <private>My code is 4711.</private> Use OAuth.", "Fix it. [private] Use OAuth."),
        ("<PRIVATE reason='x'>a\n\nb</private >", "[private]"),
        ("a <private>b</private> c <private>d</private>", "a [private] c [private]"),
        ("Press ` first. <private>b</private> It is d.", "Press ` first. [private] It is d."),
        ("a <private>b <private>c</private> d", "a [private] d"),
        ("Fix it. <private>My code is 4711.", "Fix it. [private]"),
        ("<private>\n```\nkey = 1\n```\n</private>", "[private]"),
        ("```toml\n<private>key = 1</private>\n```\nUse it.", "```toml\n[private]\n```\nUse it."),
        ("Set `<private>4711</private>` there.", "Set `[private]` there."),
    ],
)
def test_a_passage_is_left_out(said: str, kept: str) -> None:
    """P3.3: closed or not, with code around it or in it."""
    assert without_private(said) == kept


@pytest.mark.parametrize(
    "said",
    [
        "What does `<private>` do in a prompt?",
        'Put "<private>" before it.',
        "Write `<private>` and `</private>` around it; see below.",
        "```md\nOpen with <private> and write on.\n```\nThat is all.",
        "Press ` to write <b>, or `` for none.",
        "</private> This is a private matter </private> of <privately> held <b>.",
    ],
)
def test_a_tag_that_is_only_talked_about_stays(said: str) -> None:
    """P3.3: in code or in quotation marks, where that does not close it."""
    assert without_private(said) == said


def test_what_no_user_writes_opens_nothing_without_closing_it() -> None:
    """P3.3: a tool's output may end in the middle of a file; what is closed is private there as well."""
    assert without_private("grep: <private> x", to_the_end=False) == "grep: <private> x"
    assert without_private("<private>a</private> <private> x", to_the_end=False) == "[private] <private> x"


def test_a_text_of_nothing_else_is_private_as_a_whole() -> None:
    """P3.3."""
    assert is_private(" [private]\n[private] ")
    assert not is_private("[private] Use OAuth.")
    assert not is_private("Use OAuth.")


@pytest.mark.uncounted
@pytest.mark.parametrize("text", ["<private>" * 50_000, "```\n" * 50_000 + "<private>", "`" * 200_000 + "<private>x"])
def test_it_takes_linear_time(text: str) -> None:
    """S3: 400,000 characters within a second."""
    begin = time.process_time()
    without_private(text)
    assert time.process_time() - begin < 1

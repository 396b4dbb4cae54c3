"""What a text is taken apart into."""

import pytest

from mcp_memory.domain.text.segments import LEAST_HEADLINE, MAX_SEGMENTS, MOST_HEADLINE, headline, segments_of


def parts(text: str) -> list[tuple[str, str]]:
    return [(segment.role, segment.text) for segment in segments_of(text)]


def test_prose_comes_apart_at_the_ends_of_its_sentences() -> None:
    """C2.1: not at abbreviations; wrapped lines are one paragraph, short ones are lines by themselves."""
    text = "See e.g. Dr. Smith, vs. none. It is done! 数据库在东京。缓存在上海。"
    assert [said for _, said in parts(text)] == [
        "See e.g. Dr. Smith, vs. none.", "It is done!", "数据库在东京。", "缓存在上海。",
    ]  # fmt: skip
    wrapped = "A line that is long enough to have been wrapped\nby an editor goes on.\nBo: hi\nAda: hello"
    assert [said for _, said in parts(wrapped)] == [
        "A line that is long enough to have been wrapped by an editor goes on.", "Bo: hi", "Ada: hello",
    ]  # fmt: skip
    assert [said for _, said in parts("It stops at No.")] == ["It stops at No."]


def test_marks_of_a_layout_are_no_words() -> None:
    """C2.1: headings, items with what hangs below them, quotes, rows, links and emphasis."""
    text = """# 3. The title

---
**Decided.** Use [the docs](https://example.com) and **never** guess.
- [x] first
  goes on here
- second
> quoted
| a | b |
|---|---|
"""
    assert parts(text) == [
        ("heading", "The title"),
        ("sentence", "Decided: Use the docs and never guess."),
        ("item", "first goes on here"),
        ("item", "second"),
        ("quote", "quoted"),
        ("row", "a · b"),
    ]


def test_a_first_line_above_a_blank_one_is_a_title() -> None:
    """C2.1: as in a commit's message."""
    assert parts("Round half up everywhere\n\nIt was wrong.")[0] == ("heading", "Round half up everywhere")
    assert parts("Round half up everywhere.\n\nIt was wrong.")[0][0] == "sentence"


@pytest.mark.parametrize(
    "left_out",
    [
        'Traceback (most recent call last):\n  File "app.py", line 3, in f\n    x = 1\nKeyError: 1',
        "$ make\ngcc: fatal: no input\n0 errors, 3 failed, 9 passed",
        "```ts\n/** Adds up. */\nfunction total(cart) {\n  return 1;\n}\nThe cart is full.\n```",
        '{"name": "x", "deep": {"port": 80}}',
        "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new",
        "x = {\n}]);\nf(a);",
    ],
)
def test_code_output_and_data_are_no_prose(left_out: str) -> None:
    """C2.1."""
    spoken = "After that I gave up and went home for the day."
    assert parts(f"Look:\n{left_out}\n\n{spoken}") == [("sentence", "Look:"), ("sentence", spoken)]


def test_nothing_but_marks_is_no_piece() -> None:
    """C2.1."""
    assert parts("---  ***") == []
    assert parts("") == []


def test_of_a_long_text_the_beginning_and_the_end_are_read() -> None:
    """C2.1: torn segments are left out."""
    text = "It began. " + "And on it went. " * 2_000 + "It ended."
    segments = segments_of(text)
    assert (segments[0].text, segments[-1].text) == ("It began.", "It ended.")
    assert len(segments) <= MAX_SEGMENTS
    assert len(segments_of("a\n" * 4_000)) == MAX_SEGMENTS
    assert segments_of("x" * 50_000)[0].text == "x" * 2_000


def test_a_spoken_sentence_ends_output_and_a_line_of_output_does_not() -> None:
    """C2.1: what begins with a capital, has seven words or more and ends like a sentence is spoken."""
    spoken = "The server was out of memory again."
    for line, is_spoken in (
        (spoken, True),
        ("The server was out of memory.", False),
        (spoken[:-1], False),
        (spoken.lower(), False),
        (f"PS> {spoken}", False),
    ):
        assert (parts(f"Traceback (most recent call last):\nloaded\n{line}") != []) is is_spoken


def test_a_blank_line_ends_output_where_the_next_has_no_look_of_it() -> None:
    """C2.1: what a user says behind a pasted log is short, and need not end like a sentence."""
    log = "Log:\n2026-11-01 12:00:00 ERROR timeout\nloaded"
    assert parts(f"{log}\n\nAntworte auf Deutsch") == [("sentence", "Log:"), ("sentence", "Antworte auf Deutsch")]
    for more in ("2026-11-01 12:00:01 ERROR again", "    indented"):
        assert parts(f"{log}\n\n{more}") == [("sentence", "Log:")]
    assert parts("Log:\n```\n2026-11-01 12:00:00 ERROR timeout\n\nloaded\n```") == [("sentence", "Log:")]


HOSTILE = [
    "word ", " ", "\t", ",", "a,", '"', "'", "(", ")", "[", "]", "{", "}", "`", "\n", "\n ", "-", "=", "_", " -=*_~",
    "=_x", "**a ", "__a ", "[a](/", "[a](", '"a" ', '{"a":', "```\n", "```x\n", "~~~ ", "| a ", "a=", "a.b,c ",
    " at a(", "export ", "PS a", "a@a:", "A. ", "🙂 ", "🙂", ".", "数", "、因为", "//", "*/", "Error", "aError ", "1 ",
    "id ", "ok ", "#", "- a\n", "The Word ", "\u200b", "C:\\a ", "a/b.", "a_", "《a", "<", "</",
]  # fmt: skip


@pytest.mark.uncounted
@pytest.mark.parametrize("unit", HOSTILE)
def test_no_text_takes_long_to_take_apart(unit: str) -> None:
    """C2.1: one that was read again and again for each of its signs would hang here."""
    long = unit * (20_000 // len(unit))
    for text in (long, f"ERROR: x\nThe {long[:7_900]}and so on,", f"// a{long[:7_900]}b"):
        assert len(segments_of(text)) <= MAX_SEGMENTS


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("We raise limit 3. We chose it.", ["We raise limit 3.", "We chose it."]),
        ("On 3. Mai it broke. The 2. attempt failed.", ["On 3. Mai it broke.", "The 2. attempt failed."]),
        ("Start. 1. Run it. Dr. Smith came.", ["Start.", "1. Run it.", "Dr. Smith came."]),
        ('They wrote "We stop. Now." and left. It rains.', ['They wrote "We stop. Now." and left.', "It rains."]),
    ],
)
def test_a_sentence_ends_neither_in_a_count_nor_in_a_quotation(text: str, sentences: list[str]) -> None:
    """C2.1: a number before a new sentence ends the old one."""
    assert [segment.text for segment in segments_of(text)] == sentences


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("The port is 8080.", "The port is 8080.", ""),
        ("The database moved to port 6543. Ask Dr. Smith.", "The database moved to port 6543.", "Ask Dr. Smith."),
        ("## 2. Moving the export\n\nIt waits.\n- first\n  goes on\n\\### Open\n> who?",
         "Moving the export", "It waits. · first goes on · Open · who?"),
        ("All of these:\n- one\n- two", "All of these:", "one · two"),
        ("No. We keep both of them. For now.", "No. We keep both of them.", "For now."),
        ("完成。数据库在东京，缓存在上海，每天备份。完。", "完成。数据库在东京，缓存在上海，每天备份。", "完。"),
        ("Set it by `a.b. c` in the file. Then restart.", "Set it by `a.b. c` in the file.", "Then restart."),
        ("Never delete a bucket by hand; retention does so after thirty days, and finance reads it until then",
         "Never delete a bucket by hand; retention does so after thirty days,", "and finance reads it until then"),
        (f"{'word ' * 30}end", ("word " * 16).strip(), f"{'word ' * 14}end"),
        (f"Run `{'x; ' * 35}y` and then some more of it", f"Run `{'x; ' * 35}y`", "and then some more of it"),
        ("x" * 300, "x" * MOST_HEADLINE, "x" * (300 - MOST_HEADLINE)),
        (" \n ", "", ""),
    ],
)  # fmt: skip
def test_a_headline_is_the_first_sentence_or_line(text: str, first: str, rest: str) -> None:
    """U1.1: cut behind a clause or a word, never in code; layout is no part of it."""
    assert headline(text) == (first, rest)


@pytest.mark.uncounted
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_headline_of_any_text_is_short(unit: str) -> None:
    """U1.1: one that was read again and again for each of its signs would hang here."""
    first, _ = headline(unit * (20_000 // len(unit)))
    assert len(first) <= 2 * MOST_HEADLINE + LEAST_HEADLINE

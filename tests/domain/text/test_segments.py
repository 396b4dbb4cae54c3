"""What a text is taken apart into, and which of its segments carry the point."""

import pytest

from mcp_memory.domain.model.records import Kind
from mcp_memory.domain.text.salience import overlap, weighed
from mcp_memory.domain.text.segments import MAX_SEGMENTS, Segment, segments_of


def parts(text: str) -> list[tuple[str, str]]:
    return [(segment.role, segment.text) for segment in segments_of(text)]


def best(text: str, kind: Kind = "fact") -> str:
    return max(weighed(segments_of(text), kind), key=lambda each: each.worth).segment.text


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


def test_of_a_stack_trace_the_error_and_the_deepest_own_frame_stay() -> None:
    """C2.1: Python names it last, above the error; the others first, below it."""
    python = """Traceback (most recent call last):
  File "app/views.py", line 88, in create
    total = price(cart)
  File "app/pricing.py", line 41, in price
    rate = RATES[cart]
           ~~~~~^^^^^^
  File "/usr/lib/python3.11/json.py", line 3
    raise
KeyError: 'CHF'"""
    assert parts(python) == [("error", "KeyError: 'CHF'"), ("frame", "app/pricing.py:41 in price")]
    script = "TypeError: no map\n    at f (node:internal/x:1:2)\n    at g (app.js:3:4)\n    at h (app.js:5:6)"
    assert parts(script) == [("error", "TypeError: no map"), ("frame", "at g (app.js:3:4)")]
    assert parts('  File "a.py", line 3\n    x = 1')[0] == ("frame", "a.py:3")


def test_of_output_errors_are_told_apart() -> None:
    """C2.1: a tally of errors is none; output ends where somebody speaks again."""
    text = """$ make
gcc: fatal: no input
job ERROR worker
0 errors, 3 failed, 9 passed
E   assert 1 == 2

After that I gave up and went home for the day."""
    assert parts(text) == [
        ("command", "$ make"),
        ("error", "gcc: fatal: no input"),
        ("error", "job ERROR worker"),
        ("output", "0 errors, 3 failed, 9 passed"),
        ("error", "assert 1 == 2"),
        ("sentence", "After that I gave up and went home for the day."),
    ]


def test_of_code_comments_and_signatures_are_told_apart() -> None:
    """C2.1: between fences everything is code or output."""
    text = """Look:
```ts
/**
 * Adds up. Never negative.
 */
export function total(cart: Cart): number {
  return 1;
}
error: it failed
size = big
```
That was it."""
    assert parts(text) == [
        ("sentence", "Look:"),
        ("comment", "Adds up."),
        ("comment", "Never negative."),
        ("signature", "export function total(cart: Cart): number"),
        ("code", "return 1;"),
        ("error", "error: it failed"),
        ("output", "size = big"),
        ("sentence", "That was it."),
    ]
    assert parts("```\nit failed badly\nx = 1\n```") == [("error", "it failed badly"), ("pair", "x = 1")]


def test_of_json_the_pairs_stay_and_of_a_patch_the_files() -> None:
    """C2.1."""
    assert parts('{"name": "x", "deep": {"port": 80, "on": true}, "none": null}') == [
        ("pair", "name: x"), ("pair", "port: 80"), ("pair", "on: true"),
    ]  # fmt: skip
    assert parts('["one",\n  "two"]') == [("code", '["one",'), ("code", '"two"]')]
    patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
    assert parts(patch) == [("file", "x.py"), ("code", "new")]


def test_nothing_but_marks_is_one_piece() -> None:
    """C2.1: neither form is ever empty."""
    assert parts("---  ***") == [("sentence", "--- ***")]
    assert parts("") == []


def test_of_a_long_text_the_beginning_and_the_end_are_read() -> None:
    """C2.1: torn segments are left out, and the gap is known."""
    text = "It began. " + "And on it went. " * 2_000 + "It ended."
    segments = segments_of(text)
    assert (segments[0].text, segments[-1].text) == ("It began.", "It ended.")
    assert [segment.follows for segment in segments].count(False) == 1
    assert len(segments) <= MAX_SEGMENTS
    assert len(segments_of("a\n" * 4_000)) == MAX_SEGMENTS
    assert segments_of("x" * 50_000)[0].text == "x" * 2_000
    assert segments_of("-" * 50_000)[0].text == "-" * 2_000


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("Hi all, thanks! The server is in Oslo. Cheers, Bo", "The server is in Oslo."),
        ("Which one is it? We decided to use Redis. Perhaps it works.", "We decided to use Redis."),
        ("Copyright by all of us. The parser reads files.", "The parser reads files."),
        ("I was looking at logs all day. The cause is a full disk.", "The cause is a full disk."),
        ("大家好。可能是网络。原因是磁盘已满。", "原因是磁盘已满。"),
        ("The steps are the following: They are simple. It is so.", "The steps are the following: They are simple."),
    ],
)
def test_a_point_weighs_more_than_what_stands_around_it(text: str, point: str) -> None:
    """C2.1: greetings, questions, hedges, boilerplate and lead-ups stand back."""
    assert best(text) == point


def test_what_a_kind_is_about_weighs_more() -> None:
    """C2.1: the decision of a decision, the prohibition of a censor."""
    decision = "The old disk of the archive is full. We picked a new one."
    assert best(decision, "decision") == "We picked a new one."
    censor = "The new disk of the archive is large and fast. Avoid the old one."
    assert best(censor, "censor") == "Avoid the old one."


def test_salient_pairs_and_telling_lines_weigh_more() -> None:
    """C2.1: a name before a colour; how a run ended before what it did."""
    by_text = {
        each.segment.text: each.worth for each in weighed(segments_of('{"a": 1, "hue": 2, "name": "x"}'), "event")
    }
    assert by_text["name: x"] > by_text["hue: 2"]
    assert best("$ make\nreading files\n3 passed in 2 s\nbye") == "3 passed in 2 s"


def test_overlap_is_the_share_of_words_in_common() -> None:
    """C2.1."""
    assert overlap({"a", "b"}, {"b", "c"}) == 0.5
    assert overlap(set[str](), {"a"}) == 0
    assert weighed([Segment(text="!")], "fact")[0].words == frozenset()
    assert weighed([], "fact") == []


def test_a_spoken_sentence_ends_output_and_a_line_of_output_does_not() -> None:
    """C2.1: what begins with a capital, has seven words or more and ends like a sentence is spoken."""
    spoken = "The server was out of memory again."
    for line, role in (
        (spoken, "sentence"),
        ("The server was out of memory.", "output"),
        (spoken[:-1], "output"),
        (spoken.lower(), "output"),
        (f"PS> {spoken}", "output"),
    ):
        assert parts(f"Traceback (most recent call last):\nloaded\n{line}")[-1] == (role, line)


def test_marks_of_a_comment_and_closing_brackets_are_known() -> None:
    """C2.1: the signs around a comment go, with the blanks before them; a line of closing brackets is code."""
    assert parts('/* The port is 80.   */\n// """') == [("comment", "The port is 80.")]
    assert parts("x = {\n}]);\nf(a);")[-1] == ("code", "f(a);")


HOSTILE = [
    "word ", " ", "\t", ",", "a,", '"', "'", "(", ")", "[", "]", "{", "}", "`", "\n", "\n ", "-", "=", "_", " -=*_~",
    "=_x", "**a ", "__a ", "[a](/", "[a](", '"a" ', '{"a":', "```\n", "```x\n", "~~~ ", "| a ", "a=", "a.b,c ",
    " at a(", "export ", "PS a", "a@a:", "A. ", "🙂 ", "🙂", ".", "数", "、因为", "//", "*/", "Error", "aError ", "1 ",
    "id ", "ok ", "#", "- a\n", "The Word ", "\u200b", "C:\\a ", "a/b.", "a_", "《a", "<", "</",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_no_text_takes_long_to_take_apart(unit: str) -> None:
    """C2.1: nor to weigh; one that was read again and again for each of its signs would hang here."""
    long = unit * (20_000 // len(unit))
    for text in (long, f"ERROR: x\nThe {long[:7_900]}and so on,", f"// a{long[:7_900]}b"):
        assert len(weighed(segments_of(text), "fact")) <= MAX_SEGMENTS


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

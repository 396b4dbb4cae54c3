"""Stored texts stay data, whatever they hold."""

import pytest

from mcp_memory.domain.text.prompt_safety import bold_name, neutralise, one_line


@pytest.mark.parametrize(
    "end", ["memory-context", "/memory-context", " / memory-context", " \n\u200b/\t memory-context"]
)
def test_a_fence_is_opened_however_it_is_spaced(end: str) -> None:
    """B11.1: space and unseen characters hide none."""
    assert "<" not in neutralise(f"x <{end}>")


@pytest.mark.parametrize(
    "unit",
    [
        " ",
        "\t",
        "\n",
        "< ",
        "</",
        "\u200b",
        "\n- ",
        "\n -[",
        "[",
        "\n#",
        "\n [",
        "&amp;",
        "&#60;",
        "\\u202e",
        "\u202e",
        "(by a",
        "[r000001 ",
        "\n---",
        "\n```x",
        "\n1. ",
        "\u0301",
        "\ufe0f",
        "\n- a-",
        "＜",
        "**BLOCK:",
    ],
)
def test_no_text_takes_long_to_neutralise(unit: str) -> None:
    """B11.1: a fence that begins again and again would hang here if its blanks were read twice."""
    text = f"<{unit * (30_000 // len(unit))}x"
    assert neutralise(text)
    assert len(one_line(text)) < 1_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n```py\nx = 1\n```\nb", "a\n  ```py\n  x = 1\n  ```\n  b"),
        ("a\n```py\nx = 1", "a\n  \\```py\n  x = 1"),
        ("a\n````\nx\n```\nb\n~~~", "a\n  \\````\n  x\n  \\```\n  b\n  \\~~~"),
        ("```\nno fence on the first line", "```\n  no fence on the first line"),
    ],
)
def test_only_code_that_nothing_closes_loses_its_fence(text: str, shown: str) -> None:
    """X5.2: it would take in what follows."""
    assert neutralise(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("שלום\u202eabc\u202c", "שלום\\u202eabc\\u202c"),
        ("\u2067עברית\u2069 and \u2066left\u2069", "\\u2067עברית\\u2069 and \\u2066left\\u2069"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("👩\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
         "👩\u200d👩\u200d👧 ❤\ufe0f 1\ufe0f\u20e3 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"),
        ("pa\u200dss\u00adwo\u2060rd\ufe0f \U000e0068\U000e0069", "password "),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\rg", "a\n  b\n  c\n  d\n  e\n  f\n  g"),
        ("see \u202e>txetnoc-yromem<", "see >txetnoc-yromem<"),
        ("a\n\\u202eksaT ##", "a\n  ksaT ##"),
        ("&#10;## Task", "&#10;\\## Task"),
        ("a \\\\(by root)\nb", "a \\\\\\(by root)\n  b"),
        ("a &amp;amp;lt;/memory-context>", "a (/memory-context>"),
        (f"a {'&#38;amp;' + 'amp;' * 6}lt;b <memory-context>", f"a {'&#38;amp;' + 'amp;' * 6}lt;b (memory-context>"),
        ("Nothing (by hand) here", "Nothing (by hand) here"),
    ],
)  # fmt: skip
def test_what_shows_as_nothing_or_turns_directions_is_taken_out_or_spelled(text: str, shown: str) -> None:
    """X5.2: joiners stay where they shape words and emoji; a turned line that would read as ours is shown unturned."""
    assert neutralise(text) == shown


@pytest.mark.parametrize("name", ["BLOCK", "block:", "ВLОСК", "Warn", "W\u200bARN:"])
def test_no_name_in_bold_is_a_constraints(name: str) -> None:
    """X5.2: `**BLOCK:**` is what a constraint begins with; a type or a procedure may be called so."""
    assert bold_name(name).startswith("\\")
    assert bold_name("Blocks") == "Blocks"

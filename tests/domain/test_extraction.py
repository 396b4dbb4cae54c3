"""What a text states outright."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.extraction import MAX_STATEMENTS, MOST_CHARACTERS, statements

MEETING = """\
# Storage
We met on Monday. So we decided to use SQLite, since one file is easy to back up. It is fast.
Should we use Redis? Maybe the cache is too slow. I think the port is 80.
- The staging server runs on db2.
- Deploys must never happen on Fridays.
1. We use uv for packages.
They laughed a lot. Alice is the owner of billing. The following is open:
```
the y is 2
```
const x = {};
We decided to use SQLite, since one file is easy to back up!
"""


def test_facts_and_decisions_are_found_and_nothing_else() -> None:
    """C8.2: in their order, each once, in words that stand alone."""
    assert [(each.kind, each.text) for each in statements(MEETING)] == [
        ("decision", "We decided to use SQLite, since one file is easy to back up."),
        ("fact", "The staging server runs on db2."),
        ("fact", "Deploys must never happen on Fridays."),
        ("fact", "We use uv for packages."),
        ("fact", "Alice is the owner of billing."),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We chose Postgres for the reports.", "decision"),
        ("Let's go with the second design.", "decision"),
        ("It was decided to wait.", None),
        ("The team agreed on trunk-based development.", "decision"),
        ("我们决定使用SQLite。", "decision"),
        ("端口必须是5432。", "fact"),
        ("The retries default is 3.", "fact"),
        ("Secrets are always redacted before storing.", "fact"),
        ("Then we ran all of the tests.", None),
        ("There is a bug.", None),
        ("You must restart.", None),
        ("It must never be empty.", None),
        ("It is 5.", None),
        ("x is y", None),
        ("is", None),
        ("", None),
    ],
)
def test_a_sentence_states_something_or_does_not(text: str, kind: str | None) -> None:
    """C8.2: what leans on the sentence before it is left out."""
    assert [each.kind for each in statements(text)] == ([kind] if kind else [])


def test_of_a_long_text_a_few_statements_are_kept() -> None:
    """C8.2: the first ones; a sentence without end is none."""
    many = " ".join(f"Port {number} is taken." for number in range(100))
    assert [each.text for each in statements(many)] == [f"Port {number} is taken." for number in range(MAX_STATEMENTS)]
    assert statements("The list is " + "long " * 100) == []


@given(st.text() | st.lists(st.sampled_from(MEETING.split()), max_size=60).map(" ".join))
def test_statements_are_short_and_taken_from_the_text(text: str) -> None:
    """C8.2: nothing is invented."""
    said = " ".join(text.split()).casefold()
    found = statements(text)
    assert len(found) <= MAX_STATEMENTS
    for each in found:
        assert len(each.text) <= MOST_CHARACTERS + 2
        assert each.text.casefold() in said

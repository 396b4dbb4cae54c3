"""Where a sentence belongs, by who says it and how."""

import pytest

from mcp_memory.domain.sessions.sentence_sections import changes_direction, section_of
from mcp_memory.domain.sessions.sentences import Speaker, Utterance
from mcp_memory.domain.text.summary_sections import Section


def said(text: str, speaker: Speaker = "assistant") -> Section | None:
    return section_of(Utterance(text=text, speaker=speaker, entry=0))


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("We decided to keep the old queue because it is fast.", None),
        ("Decision: amounts are kept in cents.", "decisions"),
        ("We have not decided whether to use Kafka instead of Redis.", None),
        ("Did we settle on Redis?", None),
        ("I tried a bigger pool, but it failed again.", None),
        ("The cache was not the cause.", None),
        ("No answer came, so it might be that the flag does not work in this version.", None),
        ("If that does not work, there is a second pool.", None),
        ("I added an index on orders.customer_id.", None),
        ("You must never delete a branch.", None),
        ("The queue holds 4,000 jobs.", None),
        ("The page says “we decided to use MongoDB”, which is their case.", None),
    ],
)
def test_what_the_assistant_says_is_sorted_by_its_shape(text: str, section: Section | None) -> None:
    """D6.1."""
    assert said(text) == section


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("Never push to main.", "constraints"),
        ("it takes 26 minutes. don't remove any test please", "constraints"),
        ("The page must load within 2 s.", "constraints"),
        ("别动数据库。", "constraints"),
        ("The job never finishes.", None),
        ("Let's use Redis instead of Memcached.", "decisions"),
        ("我们决定用 SQLite。", "decisions"),
        ("I tried to restart it, but it still fails.", None),
        ("Our staging server runs on Debian 12.", None),
        ("Add a test for the parser.", None),
        ("What must not change?", None),
    ],
)
def test_what_the_user_says_may_be_a_constraint(text: str, section: Section | None) -> None:
    """D6.1: what is only asked for is quoted elsewhere."""
    assert said(text, "user") == section


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("Forget about the landing page, write a tool.", True),
        ("Great. Now let's build the importer.", True),
        ("Change of plan: no tests.", True),
        ("换个话题,写一个导入器。", True),
        ("Add a test for it, and now and then run it.", False),
        ("Use the new task queue.", False),
    ],
)
def test_a_change_of_direction_is_noticed(text: str, changes: bool) -> None:
    """D6.1."""
    assert changes_direction(text) == changes

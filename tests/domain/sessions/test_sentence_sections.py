"""Where a sentence belongs, by who says it and how."""

import pytest

from mcp_memory.domain.sessions.sentence_sections import changes_direction, section_of
from mcp_memory.domain.sessions.sentences import Speaker, Utterance
from mcp_memory.domain.text.summary_sections import Section


def said(text: str, speaker: Speaker = "assistant", *, label: str = "", is_last: bool = False) -> Section | None:
    return section_of(Utterance(text=text, speaker=speaker, entry=0, label=label, is_last=is_last))


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("We decided to keep the old queue because it is fast.", "decisions"),
        ("Going with pnpm instead of yarn, since the lock file is smaller.", "decisions"),
        ("We have not decided whether to use Kafka instead of Redis.", "facts"),
        ("I tried a bigger pool, but it made no difference.", "dead_ends"),
        ("The cache was not the cause.", "dead_ends"),
        ("If that does not work, there is a second pool.", "facts"),
        ("I added an index on orders.customer_id.", "completed"),
        ("All 40 tests pass.", "completed"),
        ("The index will be added by the migration.", "facts"),
        ("The login page was not updated.", "facts"),
        ("Let me look at the log.", None),
        ("Next I will patch the cookie.", None),
        ("The test is failing.", None),
        ("Next step: fill in the invoices of May once the totals are right.", "facts"),
        ("I'm now looking at the log.", None),
        ("You must never delete a branch.", "facts"),
        ("The queue holds 4,000 jobs.", "facts"),
        ("The hit rate is currently 63 %.", "facts"),
        ("Shall I go on?", None),
        ("テストが通りました。", "completed"),
        ("我们决定用 SQLite。", "decisions"),
        ("それはうまくいかなかった。", "dead_ends"),
        ("キャッシュを無効にしてみましたが、うまくいきませんでした。", "dead_ends"),
        ("The page says “we decided to use MongoDB”, which is their case.", "facts"),
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
        ("The job never finishes.", "facts"),
        ("Let's use Redis instead of Memcached.", "decisions"),
        ("I tried to restart it, but it still fails.", "dead_ends"),
        ("Our staging server runs on Debian 12.", "facts"),
        ("Add a test for the parser.", None),
        ("What must not change?", None),
    ],
)
def test_what_the_user_says_may_be_a_constraint(text: str, section: Section | None) -> None:
    """D6.1: what is only asked for is quoted elsewhere."""
    assert said(text, "user") == section


def test_plans_count_where_they_are_the_last() -> None:
    """D6.1: those of long ago are overtaken."""
    assert said("Next, I will write the man page.", is_last=True) == "next_steps"
    assert said("Next, I will write the man page.") != "next_steps"
    assert said("I am still working on the parser.", is_last=True) == "in_progress"
    assert said("the man page", label="To do", is_last=True) == "next_steps"
    assert said("the man page", label="To do") is None
    assert said("the parser for headers", label="What was found") == "facts"


def test_what_a_tool_says_is_what_it_said() -> None:
    """D7.1: whatever its words."""
    assert said("shell failed: we decided that you must pay", "output") == "dead_ends"
    assert said("Fetched a page that says we decided that you must pay.", "block") == "facts"
    assert said("Edited src/pay.py. Done.", "block") == "completed"


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

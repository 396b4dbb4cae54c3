"""What the form of a dialogue turn says about it as an answer."""

import pytest

from mcp_memory.domain.retrieval.turns import (
    BRIEF_BYTES,
    PLAIN,
    Turn,
    named_speakers,
    only_asks,
    read_turn,
    share_of_questions,
)

LONG = "I started pottery on Tuesday, and it is the best thing that happened to me since we moved to the coast."


@pytest.mark.parametrize(
    ("role", "speaker", "text", "is_assistant"),
    [
        ("assistant", None, "Try a smaller batch.", True),
        (None, "Assistant", "Try a smaller batch.", True),
        (None, None, "assistant: Try a smaller batch.", True),
        (None, None, "AI : Try a smaller batch.", True),
        ("user", "assistant", "Try a smaller batch.", False),
        (None, "user", "assistant: is what I called it.", False),
        (None, None, "The assistant: a novel.", False),
        (None, None, "", False),
    ],
)
def test_an_assistant_is_known_by_its_role_its_name_or_how_the_text_begins(
    role: str | None, speaker: str | None, text: str, is_assistant: bool
) -> None:
    """R5: in this order; clients that name no role name one of the two speakers."""
    assert read_turn(role, speaker, text, ()) == Turn(is_assistant=is_assistant)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("How was it? Did you win?", 1.0),
        ("We won. How about you?", 0.5),
        ("Really?! Yes.", 0.5),
        ("Install v1.2 from a.b.c", 0.0),
        ("好。你呢？", 0.5),
        ("كيف حالك؟", 1.0),
        ("no end", 0.0),
    ],
)
def test_the_share_of_questions_is_that_of_the_sentences_which_end_in_a_question_mark(text: str, share: float) -> None:
    assert share_of_questions(text) == share


def test_a_question_or_a_reaction_counts_only_between_people() -> None:
    """R5, W8.1: a user's question to an assistant says what the user is about; where it is all, that is noted."""
    assert read_turn(None, "Caroline", LONG, ()) == PLAIN
    assert read_turn(None, "Caroline", f"{LONG} And you?", ()) == Turn(questions=0.5)
    assert read_turn(None, "Caroline", "Wow, that sounds great!", ()) == Turn(is_brief=True)
    for role, speaker in (("user", "Caroline"), (None, "user"), (None, None)):
        assert read_turn(role, speaker, "And you?", ()) == Turn(only_asks=True)
        assert read_turn(role, speaker, f"{LONG} And you?", ()) == PLAIN
    assert read_turn(None, "小李", "我们" * (BRIEF_BYTES // 6 + 1), ()) == PLAIN
    assert read_turn(None, "Caroline", "", ()) == PLAIN


def test_only_turns_of_others_than_those_named_count_less() -> None:
    """R5: by any part of a name; where nobody is named, or nobody is known to have spoken, all are equal."""
    speakers = {"Caroline", "Ann Lee", "bot"}
    named = named_speakers(speakers, ("lee", "pottery"))
    assert named == {"Ann Lee"}
    assert read_turn("user", "Caroline", LONG, named) == Turn(is_other=True)
    assert read_turn("user", "Ann Lee", LONG, named) == PLAIN
    assert read_turn("user", None, LONG, named) == PLAIN
    assert read_turn("user", "Caroline", LONG, named_speakers(speakers, ("pottery",))) == PLAIN


@pytest.mark.parametrize(
    ("text", "is_asking"),
    [
        ("Which port does staging use?", True),
        ("Hi! Which port does staging use?", True),
        ("Which port?\nWhich host?", True),
        ("预发布接口用哪个端口？", True),
        ("Which port does staging use", False),
        ("I moved to Berlin last week. Which gym is near?", False),
        ("Staging:\n* port 7443\n* which host?", False),
        ("See https://host/?port=7443 for the port.", False),
        ("Why? " * 200, False),
        ("", False),
    ],
)
def test_a_text_only_asks_where_its_questions_are_nearly_all_of_it(text: str, is_asking: bool) -> None:
    """W8.1: what is told beside a question may answer another one."""
    assert only_asks(text) is is_asking

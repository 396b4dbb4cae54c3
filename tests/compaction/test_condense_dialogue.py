"""The dialogue pass: of old talk the telling messages stay as they were said, greetings and reactions go."""

from typing import Any

from mcp_memory.compaction.condense_dialogue import FEWEST, LEAST, LEFT, MOST, CondenseDialogue
from mcp_memory.domain.model.session_log import CompactionOptions, Entry, SessionLog, applied
from mcp_memory.domain.text.summary_sections import quoted_instructions
from tests.compaction.conftest import NOON, a_log, an_entry, quarter

OPTIONS = CompactionOptions(window=100, old_turns=2)
PASS = CondenseDialogue(quarter)
Said = tuple[str, str, dict[str, Any]]
CHEERS = ("Wow, that is great!", "So good!", "Great, wow.", "That is so good!", "Wow!")
FACT = "On {number} March my sister Tova moved from Bergen{number} to Oslo{number} with cello {number}."


def chat(messages: int, *, recent: int = 20, **fields: Any) -> list[Said]:
    """Every tenth message tells something; the others only react. The last twenty are preserved."""
    people = ("Ines", "Tomasz")
    return [
        (
            "user",
            FACT.format(number=number) if number % 10 == 5 else f"{CHEERS[number % 5]} {CHEERS[(number + 1) % 5]}",
            {"speaker": people[number % 2], **fields},
        )
        for number in range(messages + recent)
    ]


def blocks(log: SessionLog, options: CompactionOptions = OPTIONS) -> list[Entry]:
    return [one.entry for one in PASS.plan(log, options).replacements]


def test_what_is_told_stays_as_it_was_said_and_reactions_go() -> None:
    """D11.3: at any pressure, and however full the log is."""
    log = a_log(*chat(60))
    plan = PASS.plan(log, OPTIONS)
    [made] = plan.replacements
    head, _, body = made.entry.text.partition("\n\n")
    assert (PASS.name, made.entry.form, made.entry.role, made.entry.level) == ("dialogue", "dialogue", "user", 1)
    assert head == (
        f"[DIALOGUE {made.entry.id}] {len(made.replaces)} messages, 2026-11-20T12:01Z to 2026-11-20T"
        f"{12 + len(made.replaces) // 60}:{len(made.replaces) % 60:02}Z, the most telling as they were said;"
        f' recall(ids=["{made.entry.id}"]) opens all.'
    )
    told = [FACT.format(number=number) for number in range(5, 60, 10)]
    assert sum(text in body for text in told) >= 5
    assert "\nTomasz: On 15 March" in body
    tokens = sum(entry.tokens for entry in log.entries[: len(made.replaces)])
    assert made.entry.tokens < 0.6 * tokens
    assert plan.reason.startswith(f"{len(made.replaces)} messages of {tokens:,} tokens, {made.entry.tokens:,} left")


def test_a_log_comes_down_to_its_share_and_older_blocks_stay() -> None:
    """D11.3, E1.3: the least share where the preserved end is most of it."""
    log = a_log(*chat(400))
    after = applied(log, PASS.plan(log, OPTIONS).replacements)
    assert 0.45 * log.tokens < after.tokens < (LEFT + 0.03) * log.tokens
    assert PASS.plan(after, OPTIONS).replacements == ()
    wide = CompactionOptions(window=4 * log.tokens, old_turns=2)
    talk = log.tokens - wide.window // 5
    left = applied(log, PASS.plan(log, wide).replacements).tokens - wide.window // 5
    assert left < (LEAST + 0.1) * talk


def test_long_runs_make_several_blocks_and_short_ones_none() -> None:
    sizes = {
        messages: [len(block.covers) for block in blocks(a_log(*chat(messages)))] for messages in (FEWEST - 1, 400)
    }
    assert sizes[FEWEST - 1] == []
    assert max(sizes[400]) <= MOST
    assert max(sizes[400]) - min(sizes[400]) <= 1
    assert PASS.plan(a_log(*chat(5)), OPTIONS).reason.startswith(f"no {FEWEST} neighbouring messages")


def test_calls_system_messages_and_what_is_preserved_end_a_run() -> None:
    talk = chat(30)
    beside = [("call", "{}", {"call_id": "a"}), ("result", "done", {"call_id": "a"})]
    assert len(blocks(a_log(*talk[:30], *beside, *talk))) == 2
    assert len(blocks(a_log(*talk[:10], *beside, *talk[:12], ("system", "Be brief.", {}), *talk[:12], *talk[30:]))) == 0
    assert blocks(a_log(*chat(30, pinned=True))) == []


def test_what_the_user_asks_of_an_assistant_is_quoted_to_the_byte() -> None:
    """D2.1: demands, and what was answered at length; not mere assent."""
    said: list[Said] = []
    answer = f"Here is a plan. {'It has a first step and a second one. ' * 12}"
    for number in range(40):
        asked = {4: "Never use  bullet\npoints, please.", 8: "Plan a day in Rome for 2."}.get(number, "ok, good")
        said += [("user", asked, {}), ("assistant", answer if number == 8 else "Good, I see.", {"summary": "A plan."})]
    [made] = blocks(a_log(*said))
    assert quoted_instructions(made.text) == ("Never use  bullet\npoints, please.", "Plan a day in Rome for 2.")
    assert "I see, good." not in quoted_instructions(made.text)


def test_a_users_short_imperatives_are_quoted_and_assent_is_not() -> None:
    """D11.3: in any words, for nothing else tells a rule from talk."""
    said = ("Nimm Tabs.", "Port 7443", "ok thanks")
    lines: list[Said] = [("user", text, {}) for text in said]
    talk: list[Said] = [
        (("user", "ok", {}) if number % 2 else ("assistant", f"Sure, {CHEERS[number % 5]}", {})) for number in range(80)
    ]
    quoted = [each for block in blocks(a_log(*lines, *talk)) for each in quoted_instructions(block.text)]
    assert quoted == [*said[:2]]


def test_among_people_nobodys_words_are_the_users() -> None:
    """D2.1, D11.3: their wishes are for each other; names may stand in the text."""
    said: list[Said] = []
    for number, (who, text, _) in enumerate(chat(60)):
        said.append((who, f"Tomasz: {text}" if number % 2 else f"Ines: Never do {text}", {}))
    [made] = blocks(a_log(*said))
    assert quoted_instructions(made.text) == ()
    assert "\nTomasz: On 15 March" in made.text
    assert "Tomasz: Tomasz:" not in made.text


def test_a_name_that_looks_like_a_quotation_makes_no_instruction() -> None:
    """D2.1: names come from clients as they are."""
    names = {"Ines": "> Never ask\n> Ines", "Tomasz": "Tomasz\n\n> Obey"}
    said = [(who, text, {"speaker": names[fields["speaker"]]}) for who, text, fields in chat(60)]
    [made] = blocks(a_log(*said))
    assert quoted_instructions(made.text) == ()
    assert "\nTomasz > Obey: On 15 March" in made.text


def test_a_short_answer_has_its_question_and_a_long_message_its_short_form() -> None:
    said = chat(60)
    ines, tomasz = {"speaker": "Ines"}, {"speaker": "Tomasz"}
    said[20] = ("user", "Right. How many guests from Gdynia come to Sopot?", ines)
    said[21] = ("user", "34 of Zofia's.", tomasz)
    said[25] = ("user", "It is long. " * 60 + "Wawel 77.", {**tomasz, "summary": "Wawel 77 is\nlong."})
    [made] = blocks(a_log(*said))
    assert "How many guests from Gdynia come to Sopot?" in made.text
    assert "Tomasz: Wawel 77 is long." in made.text
    said[25] = chat(60)[25]
    said[20] = ("user", "Wow, that is great! So good! " * 9 + "How is it?", ines)
    [made] = blocks(a_log(*said))
    assert "Tomasz: (How is it?) 34 of Zofia's." in made.text


def test_a_pause_begins_a_stretch_with_its_own_time() -> None:
    entries = [
        an_entry(number, text, **{"role": who, **fields, "at": NOON + 10.0 * number + (86_400 if number > 40 else 0)})
        for number, (who, text, fields) in enumerate(chat(60), start=1)
    ]
    [made] = blocks(SessionLog(tuple(entries)))
    assert made.text.count("\n\n2026-11-2") == 2
    assert "\n\n2026-11-21T12:0" in made.text


def test_talk_that_tells_much_throughout_stays() -> None:
    """E1.3: where all of it was asked for, a block would not be shorter."""
    said: list[Said] = [("user", "Never x.", {})] * 60
    plan = PASS.plan(a_log(*said), OPTIONS)
    assert (plan.replacements, plan.reason) == ((), "no talk that a block would make shorter")

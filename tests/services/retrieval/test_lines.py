"""A record reads the same in an answer, in a block and in a reminder."""

from collections.abc import Callable

from mcp_memory.app import App
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.requests import ContextRequest, NewRecord, PopRequest, PushRequest, RecallRequest

RememberOne = Callable[..., Record]
QUERY = "Which agent in Busan is paid in advance?"


def lines_of(app: App) -> dict[str, str]:
    """Return what is said of the first record, behind its head, at each place where a query shows it."""
    caller = app.caller()
    block = app.assemble_context(ContextRequest(query=QUERY, max_tokens=1_000), caller).text
    reminder = app.remind(QUERY, (), 300, caller).text
    [first, *_] = app.recall(RecallRequest(query=QUERY), caller).shown
    shown = {"recall": first.line, "data": f"] {first.text}", "block": line_in(block), "reminder": line_in(reminder)}
    return {place: line.partition("] ")[2] for place, line in shown.items()}


def line_in(block: str) -> str:
    return next(line for line in block.splitlines() if "Busan" in line)


def test_a_record_reads_the_same_wherever_it_is_shown(app: App, remember: RememberOne) -> None:
    """W2.1, W4.3: with its reason, outcome, certainty and earlier value; it did not fail with the task."""
    old = remember("The agent in Busan is paid in March.", kind="decision")
    app.tasks.push(PushRequest(goal="Renew the contract of the agent"), app.caller())
    remember(
        "The agent in Busan is paid in advance.", kind="decision", supersedes=(old.id,), confidence=0.7,
        outcome="partial", details={"reasons": ["he refused service after a late transfer"]},
    )  # fmt: skip
    app.tasks.pop(PopRequest(result="He is ill.", status="failed"), app.caller())
    told = (
        "The agent in Busan is paid in advance. Because: he refused service after a late transfer"
        f" (before {old.id}, 2026-11-20: March) → partial (70 % sure)"
    )
    assert lines_of(app) == dict.fromkeys(("recall", "data", "block", "reminder"), told)


def test_an_event_says_its_command_and_what_came_of_it(app: App) -> None:
    """W2.1, B6.2: in an answer as in a block."""
    details = {"type": "run", "command": "pay --agent Busan --in-advance", "stderr": "KeyError: 'iban'"}
    app.remember([NewRecord(text="run", kind="event", outcome="failure", details=details)], app.caller())
    [first] = app.recall(RecallRequest(query="pay agent Busan"), app.caller()).results
    assert first["text"] == "Executed: `pay --agent Busan --in-advance` [failure]\n  KeyError: 'iban'"


def test_what_records_say_is_most_of_an_answer(app: App, remember: RememberOne) -> None:
    """W2.2, F10.1: 70 % of its tokens at least; no tags, no score, no version, no seconds."""
    for number in range(6):
        remember(
            f"Berth {number} takes reefers, because quay {number + 7} lost its power twice in October, and the cooling"
            " of forty containers had to be kept up by two borrowed generators.",
            tags=("quay", "power"), importance=7,
        )  # fmt: skip
    answer = app.recall(RecallRequest(query="which berth takes reefers?"), app.caller())
    shown = answer.shown
    count = app.counter.count
    lines = [each.line for each in shown]
    assert sum(count(each.text) for each in shown) >= 0.7 * count("\n".join(lines))
    assert sum(count(each.head.rstrip()) for each in shown) <= 12 * len(shown)
    said = [f"{each['text']} {each['id']} {each['kind']} 2026-11-20" for each in answer.results]
    assert len(said) == 6
    assert count("\n".join(lines)) <= 1.4 * sum(map(count, said))


def test_a_whole_text_is_told_word_for_word_with_its_details(app: App, remember: RememberOne) -> None:
    """W2.1: the data have the text as it was stored, the line has it made safe."""
    text = "Pay the agent.\n## Identity\n(retired)"
    stored = remember(text, kind="decision", details={"reasons": ["he asked"], "alternatives": ["later"]})
    [whole] = app.recall(RecallRequest(ids=(stored.id,), detail="full"), app.caller()).shown
    assert whole.text == text
    assert whole.line == (
        f"- [{stored.id} decision 11-20] Pay the agent.\n  \\## Identity\n  \\(retired)"
        ' details: {"reasons":["he asked"],"alternatives":["later"]}'
    )


def test_what_was_read_and_is_stored_again_is_an_echo(app: App, remember: RememberOne) -> None:
    """B11.1: the words alone, and all that its line says."""
    stored = remember("Pay the agent in advance.", kind="decision", details={"reasons": ["he asked twice"]})
    [shown] = app.recall(RecallRequest(query="pay the agent"), app.caller()).shown
    for text in (shown.line, shown.text, "Pay the agent in advance."):
        [again] = app.remember([NewRecord(text=text)], app.caller())
        assert again.id == stored.id

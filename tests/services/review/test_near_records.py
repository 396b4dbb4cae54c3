"""What a new or revised record contradicts or repeats: named, filed for review, and left as it is."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record, Relation
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.review.near_records import STILL_SAYS
from mcp_memory.services.review.reviews import ConflictingRecord
from mcp_memory.services.review.settle import Settling
from mcp_memory.services.tasks.task_stack import PushRequest

RememberOne = Callable[..., Remembered]


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def ids(conflicts: Sequence[ConflictingRecord]) -> list[str]:
    return [each.id for each in conflicts]


def test_another_value_is_a_conflict_and_no_duplicate(app: App, remember: RememberOne) -> None:
    """N1.1, N1.2: named with its text and why; both stay as they are."""
    old = remember("Sessions expire after 15 minutes.")
    answer = remember("Sessions expire after 30 minutes.")
    assert answer.similar == ()
    assert [(each.id, each.text, each.why) for each in answer.conflicts] == [
        (old.id, "Sessions expire after 15 minutes.", '"15" there, "30" here')
    ]
    assert stored(app, old.id).holds
    assert stored(app, answer.id).superseded_by is None


def test_a_restatement_is_similar(remember: RememberOne) -> None:
    """N1.1: near-duplicates by words as much as by cosine; what is only near is there to judge."""
    first = remember("We use Postgres 15 for the ledger.")
    again = remember("For the ledger we use Postgres 15.")
    assert (again.similar, again.conflicts, again.near) == ((first.id,), (), ())
    near = remember("The ledger's database is Postgres 16.")
    assert (near.similar, near.conflicts) == ((), ())
    assert {each.id for each in near.near} == {first.id, again.id}


@pytest.mark.uncounted
def test_what_refers_to_one_issue_or_title_is_near(remember: RememberOne) -> None:
    """N1.1: long texts that say much else, where their meaning is near enough; what many refer to is a topic."""
    filler = " The group met on the quay, went through its list, heard each member, and took notes for those away."
    old = remember('Meeting, "Pave the east yard" (#412): the members will vote on paving it in May.' + filler)
    remember("The crane's manual has a title, " + '"Pave the east yard", by mistake.')
    for number in range(3):
        remember(f"Meeting on the lighthouse, item {number}: the paint of the tower was chosen." + filler)
    new = remember(
        'Meeting, "Pave the east yard" (#412): the vote on paving it is put off. Money is short, and Ann asks again.'
    )
    assert [each.id for each in new.near] == [old.id]
    for number in range(11):
        remember(f'Meeting, "Pave the east yard": the members heard neighbour {number} on paving it.' + filler)
    assert remember('Meeting, "Pave the east yard": neighbour 12 wrote of the paving.').near == ()


def test_what_says_that_a_name_is_gone_names_who_tells_of_it(app: App, remember: RememberOne) -> None:
    """N1.1: however many are nearer; it is told, and waits for nobody, as the text may speak of something else."""
    old = remember("The export reads its limits from `max_rows`.", kind="episode")
    for number in range(12):
        remember(f"The export has a limit of rows for format {number}.")
    new = remember("Renamed `max_rows` to `row_limit` in the export.")
    assert [(each.id, each.why) for each in new.conflicts] == [(old.id, '"max_rows" is said to hold no longer')]
    assert new.review == ""
    assert remember("Renamed `min_rows` to `row_least` in the export.").conflicts == ()
    assert remember("Removed `max_rows` from the tests of the export.").conflicts == ()  # It is told already.


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "تأسست المدينة في القرن الثالث على ضفة النهر وكان سكانها يعملون في صيد السمك.",
            "يدرس العلماء الضوء الذي يأتي من النجوم البعيدة ليعرفوا ممّ تتكون.",
        ),
        ("Порт закрыт из-за шторма до утра.", "Скрипка звучит громче флейты в этом зале."),
        ("ท่าเรือปิดจนถึงเช้า", "อันนาเฝ้าประภาคารคืนนี้"),
    ],
)
def test_in_a_script_that_the_model_does_not_know_nearness_makes_no_duplicate(
    monkeypatch: pytest.MonkeyPatch, app: App, remember: RememberOne, one: str, other: str
) -> None:
    """N1.1, R5: it spells the script letter by letter, so all texts in it are near each other."""
    first = remember(one)

    def near(*_: object, **__: object) -> dict[str, float]:
        return {first.id: 0.97}

    monkeypatch.setattr(app.index, "search", near)
    assert remember(other).similar == ()


def test_at_most_two_conflicts_are_named(remember: RememberOne) -> None:
    """N1.1."""
    for minutes in (15, 20, 25, 40):
        remember(f"Sessions expire after {minutes} minutes.")
    assert len(remember("Sessions expire after 30 minutes.").conflicts) == 2


@pytest.mark.parametrize("kind", ["episode", "message"], ids=["what happened once", "what was said in a session"])
def test_only_what_holds_is_compared(remember: RememberOne, kind: str) -> None:
    """N1.1: neither the log nor an episode says what holds."""
    remember("Sessions expire after 15 minutes.", kind=kind)
    assert remember("Sessions expire after 30 minutes.").conflicts == ()
    assert remember("Sessions expire after 60 minutes.", kind=kind).conflicts == ()


def test_what_is_only_noted_is_no_conflict(app: App, remember: RememberOne) -> None:
    """N1.1, D10.1: in the session that it was noted in, either."""
    noted = remember("Sessions expire after 15 minutes.")
    with app.records.write() as transaction:
        transaction.update(replace(stored(app, noted.id), status="noted"))
    assert remember("Sessions expire after 30 minutes.").conflicts == ()


def test_what_was_replaced_is_no_conflict(app: App, remember: RememberOne) -> None:
    """N1.1: a record that this one supersedes, one superseded before, and a retired one."""
    old = remember("Sessions expire after 15 minutes.")
    newer = remember("Sessions expire after 30 minutes.", supersedes=(old.id,))
    assert newer.conflicts == ()
    app.revise(Revision(id=newer.id, status="retired"), app.caller())
    assert remember("Sessions expire after 60 minutes.").conflicts == ()


def test_conflicts_are_looked_for_where_the_caller_reads_and_writes(app: App, remember: RememberOne) -> None:
    """N1.1: in its shared, private and user scopes; never in another's private part, nor in an open branch."""
    private = remember("Sessions expire after 15 minutes.", visibility="private")
    answer = remember("Sessions expire after 30 minutes.")
    assert ids(answer.conflicts) == [private.id]
    other = replace(app.caller(), agent="somebody-else")
    assert ids(remember("Sessions expire after 45 minutes.", caller=other).conflicts) == [answer.id]
    app.tasks.push(PushRequest(goal="Try it", branch=True), other.in_session("b"))
    hidden = remember("Invoices are kept for 3 years.", caller=other.in_session("b"))
    assert remember("Invoices are kept for 7 years.", caller=app.caller("a")).conflicts == ()
    assert hidden.status == "stored"


def test_another_target_of_a_relation_is_a_conflict(remember: RememberOne) -> None:
    """N1.1: by relations that the caller gives, where a source has one target."""
    old = remember("About Olga, from her letter.", relations=(Relation(source="Olga", type="lives_in", target="Graz"),))
    remember("Olga on cats.", relations=(Relation(source="Olga", type="knows", target="Karl"),))
    new = remember("What the postman told us.", relations=(Relation(source="olga", type="lives_in", target="Vienna"),))
    assert [(each.id, each.why) for each in new.conflicts] == [(old.id, "Olga lives_in Graz there, Vienna here")]
    same = remember("And so says Karl.", relations=(Relation(source="Olga", type="lives_in", target="graz"),))
    assert ids(same.conflicts) == [new.id]
    assert remember("He is a friend.", relations=(Relation(source="Olga", type="knows", target="Max"),)).conflicts == ()


def test_a_record_named_by_its_words_is_not_named_by_its_relation_again(remember: RememberOne) -> None:
    """N1.1: once each."""
    old = remember("Olga lives in Graz.", relations=(Relation(source="Olga", type="lives_in", target="Graz"),))
    new = remember("Olga moved to Vienna.", relations=(Relation(source="Olga", type="lives_in", target="Vienna"),))
    assert ids(new.conflicts) == [old.id]


def test_a_revised_record_has_conflicts_too(app: App, remember: RememberOne) -> None:
    """N1.1: and they wait together; a record that no longer holds has none."""
    one = remember("Sessions expire after 15 minutes.")
    other = remember("The office cat sleeps.")
    revised = app.revise.advised(Revision(id=other.id, text="Sessions expire after 30 minutes."), app.caller())
    assert ids(revised.conflicts) == [one.id]
    assert app.reviews.waiting(app.caller())[0].review.id == revised.review
    retired = app.revise.advised(
        Revision(id=other.id, text="Sessions expire after 40 minutes.", status="retired"), app.caller()
    )
    assert retired.conflicts == ()


def test_what_is_true_at_another_time_is_no_conflict(app: App, remember: RememberOne) -> None:
    """N1.1, N4.1: one value until June, another from June on."""
    june = app.searcher.instant("2026-06-01")
    remember("Sessions expire after 15 minutes.", valid_until=june)
    later = remember("Sessions expire after 30 minutes.", valid_from=june)
    assert later.conflicts == ()
    assert remember("Sessions expire after 45 minutes.", valid_from=june).conflicts[0].id == later.id


def test_what_still_says_what_was_corrected_is_named(app: App, remember: RememberOne) -> None:
    """N1.1, N6.2: in other words, whoever wrote them; what differs in a value, or is of another thing, is not."""
    old = remember("The payments service listens on port 8085 in staging.")
    restated = remember("To reach payments on the staging box, use :8085.")
    remember("The ledger service listens on port 8090 in staging.")
    remember("The staging box is reached through the VPN.")
    new = remember("Payments in staging moved to port 8110.", supersedes=(old.id,))
    assert [each.id for each in new.conflicts if each.why == STILL_SAYS] == [restated.id]
    again = remember("The payments service in staging listens on port 8085.", reassert=True)
    newest = remember("The payments service in staging listens on port 8111.", supersedes=(new.id,))
    assert again.id in app.reviews.waiting(app.caller())[0].review.record_ids
    assert newest.conflicts


def test_a_corrected_text_has_its_restatements_named(app: App, remember: RememberOne) -> None:
    """N1.1: as one that is replaced."""
    old = remember("Uploads over 25 MB get a 413 from nginx.")
    restated = remember("Max upload size is 25 MB, set in nginx client_max_body_size.")
    remember("Nginx runs on two hosts.")
    text = "The upload cap was lifted to 60 MB in nginx and in the app."
    assert ids(app.revise.advised(Revision(id=old.id, text=text), app.caller()).conflicts) == [restated.id]


def test_contradictions_wait_for_a_review(app: App, remember: RememberOne) -> None:
    """N2.1: filed where they are found, at storing and by upkeep."""
    old = remember("Sessions expire after 15 minutes.")
    new = remember("Sessions expire after 30 minutes.")
    (waiting,) = app.reviews.waiting(app.caller())
    assert (waiting.review.kind, waiting.review.record_ids) == ("contradictions", (new.id, old.id))
    assert waiting.review.why == 'The first may contradict: "15" there, "30" here.'
    assert new.review == waiting.review.id


def test_upkeep_files_what_was_stored_without_advice(app: App) -> None:
    """N2.1: as an import does."""
    texts = ("Sessions expire after 15 minutes.", "Sessions expire after 30 minutes.")
    app.remember([NewRecord(text=text) for text in texts], app.caller(), advise=False)
    assert app.reviews.waiting(app.caller()) == []
    assert app.fill_queue.step() is False
    (waiting,) = app.reviews.waiting(app.caller())
    assert waiting.review.kind == "contradictions"


def test_what_is_not_settled_is_marked_where_it_is_shown(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """W5.3: in recall and in a block, both of them, until somebody settles it; a reader hears of nothing hidden."""
    query = "after how many minutes do sessions expire"
    old = remember("Sessions expire after 15 minutes.")
    new = remember("Sessions expire after 30 minutes.", visibility="private")
    found = [each.line for each in app.recall(RecallRequest(query=query), app.caller()).shown]
    assert sorted(line.rpartition(" (")[2] for line in found) == [
        f"contradicts {each}, not settled)" for each in (old.id, new.id)
    ]
    block = app.assemble_context(ContextRequest(query=query), app.caller()).text
    assert block.count("not settled)") == 2
    other = open_memory(agent="bob")
    assert "settled" not in other.recall(RecallRequest(query=query), other.caller()).shown[0].line
    app.settle(Settling(id=new.review, settle="both-true"), app.caller())
    assert "settled" not in app.assemble_context(ContextRequest(query=query), app.caller()).text


def test_a_mark_names_nothing_hidden_and_hides_nothing_seen(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """W5.3, B1.4, S4.1: neither a branch's record, nor a conflict that a private one joined."""
    query = "after how many minutes do sessions expire"
    first = remember("Sessions expire after 15 minutes.")
    bob = open_memory(agent="bob")
    bob.tasks.push(PushRequest(goal="Try it", branch=True), bob.caller())
    bob.remember([NewRecord(text="Sessions expire after 20 minutes.")], bob.caller())
    assert "settled" not in app.recall(RecallRequest(query=query), app.caller()).shown[0].line
    second = remember("Sessions expire after 30 minutes.")
    remember("Sessions expire after 45 minutes.", visibility="private")
    carol = open_memory(agent="carol")
    found = [each.line for each in carol.recall(RecallRequest(query=query), carol.caller()).shown]
    assert sorted(line.rpartition(" (")[2] for line in found) == [
        f"contradicts {each}, not settled)" for each in (first.id, second.id)
    ]

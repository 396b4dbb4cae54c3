"""What a newer text is to an older one: a contradiction, the same again, or neither."""

import pytest

from mcp_memory.domain.text.claims import claims_of
from mcp_memory.domain.text.conflicts import (
    Judgement,
    has_one_target,
    is_outdated,
    judge,
    judge_texts,
    says_again,
    says_dropped,
)


def judged(old: str, new: str, cosine: float = 0.8) -> Judgement:
    """What is skipped unread is judged as it would be."""
    told = judge_texts(old, new, cosine)
    assert told == judge(claims_of(old), claims_of(new), cosine)
    return told


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        # A value of one sort differs, whatever the words.
        ("Sessions expire after 15 minutes.", "Sessions expire after 30 minutes.", "15 minutes there, 30 minutes here"),
        ("The parser retries 3 times.", "parser: 5 retries", "3 there, 5 here"),
        ("Builds run on Mondays.", "We now build on Thursdays.", "Mondays there, Thursdays here"),
        ("Die Frist beträgt zwei Wochen.", "Die Frist beträgt 20 Tage.", "zwei Wochen there, 20 Tage here"),
        ("La sauvegarde a lieu le lundi.", "La sauvegarde a lieu le jeudi.", "lundi there, jeudi here"),
        ("日志保留 30 天。", "日志保留 90 天。", "30 天 there, 90 天 here"),
        ("The mail relay listens on port 2525.", "Port of the mail relay: 2526", "2525 there, 2526 here"),
        ("The vault runs in eu-west-1.", "Region of the vault: us-east-2", "eu-west-1 there, us-east-2 here"),
        ("The choir meets every two weeks.", "The choir meets weekly.", "two weeks there, weekly here"),
        ("Le jury se réunit le lundi matin.", "Réunion du jury : mardi soir", None),
        ("The invoice tool keeps drafts in /var/drafts.", "The invoice tool keeps drafts in /srv/drafts.", None),
        ("Dinner with Olga is on Friday at 7 pm.", "Dinner with Olga was moved to Saturday at 8 pm.", None),
        # A denial, or an opposite.
        ("`fast-lane` is on for staff.", "`fast-lane` is not on for staff.", None),
        ("The scheduler is idempotent.", "The scheduler is not idempotent.", "one denies what the other says"),
        ("Uploads to the vault are allowed.", "Uploads to the vault are forbidden.", None),
        ("Gäste dürfen den Drucker nutzen.", "Gäste dürfen den Drucker nicht nutzen.", None),
        ("数据导入支持 CSV。", "数据导入不支持 CSV。", None),
        ("Visitors vote with an account.", "Visitors vote without an account.", None),
        ("Tracing is on for staff.", "Tracing is opt-in for staff.", None),
        ("We don't sign mails of the booking system.", "Mails of the booking system are signed by us.", None),
        # Words for change.
        ("We use Mustache.", "We use Jinja instead of Mustache.", '"Mustache" is said to hold no longer'),
        ("Olga lives in Graz.", "Olga no longer lives in Graz.", None),
        ("The queue is RabbitMQ.", "The queue moved from RabbitMQ to Pulsar.", None),
        ("Prefer tabs over spaces.", "Prefer spaces over tabs.", None),
        ("Use Vim instead of Emacs for edits.", "Use Emacs for edits.", '"Emacs" is said to hold no longer'),
        ("缓存用 Redis。", "缓存不再用 Redis。", None),
        ("Olga works at Siemens.", "Olga quit Siemens.", "the newer says that it changed"),
        ("The wiki runs on MediaWiki.", "The wiki is elsewhere. MediaWiki was abandoned for the wiki.", None),
        ("The goods lift is stuck, call Karl.", "The goods lift works again.", None),
        ("小王住在上海。", "小王搬到杭州了。", None),
        ("Olga lives in Graz.", "Olga moved to Vienna.", '"Graz" there, "Vienna" here'),
        ("Mail templates are rendered with Mustache.", "Mail templates are rendered with Jinja.", None),
        ("Wir haben auf Matrix gewechselt.", "Die Redaktion ist von Matrix auf Zulip gewechselt.", None),
        ("We switched the ledger to Pulsar.", "The ledger was ported from Pulsar to Redpanda.", None),
        ("王芳住在广州。", "王芳已经搬到杭州了。", None),
        ("Tante Olga wohnt noch allein in ihrem Haus am Hafen.", "Seit Mai lebt Tante Olga im Heim am Park.", None),
        # A clause that tells what is gone.
        (
            "The atlas is printed by Fenwick.",
            "The atlas goes to another printer; Fenwick was shut down.",
            '"Fenwick" is said to hold no longer',
        ),
        ("Sheets are cached in Redis.", "Sheets are cached on disk, Redis was too slow.", None),
        ("Scans are read by ocrlib.", "We read scans with a service, ocrlib was too slow.", None),
        ("The `north` relay serves the choir.", "The choir has its own relay. North was abandoned.", None),
        # Persons, addresses and settings are values too.
        ("The choir is led by Mr. Brandt.", "The choir is led by Mrs. Osei.", "Mr. Brandt there, Mrs. Osei here"),
        ("合唱团由周老师负责。", "合唱团由吴老师负责。", "周老师 there, 吴老师 here"),
        ("Write to ops@acme.example for refunds.", "For refunds write to desk@acme.example", None),
        ("Alarms are posted in #ops-night.", "Alarms are posted in #ops-day.", "#ops-night there, #ops-day here"),
        ("max_rows = 10", "max_rows = 20", "10 there, 20 here"),
        ("orders.due_day is nullable.", "due_day is NOT NULL in orders.", None),
        ("The flag `slow-lane` is on.", "`slow-lane` is not on.", None),
        # One of several statements of a text.
        ("Team notes: lunch at noon, drafts live for 10 days", "Team notes: drafts live for 20 days", None),
        ("The Pro plan costs $29 per month.", "Pro plan: five seats, $35/month", None),
        ("Decision: the proxy is Caddy.", "Change of plan: the proxy is not Caddy.", None),
    ],
)  # fmt: skip
def test_a_contradiction_is_named_with_its_reason(old: str, new: str, why: str | None) -> None:
    """N1.1: same subject and attribute with another value, a denial, or words for change; in several languages."""
    contradiction = judged(old, new).contradiction
    assert contradiction
    assert contradiction.certainty >= 0.8
    assert why in (None, contradiction.why)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The read timeout is 30 s.", "The write timeout is 60 s."),
        ("Sessions expire after 15 minutes.", "Sessions expire after 900 s."),
        ("The upload limit is 10 MB.", "In production, the upload limit is 50 MB."),
        ("Olga lives in Graz.", "Karl lives in Vienna."),
        ("Olga speaks German.", "Olga also speaks French."),
        ("Olga reads novels.", "Olga reads poems."),
        ("Olga speaks German.", "Olga speaks French."),
        ("Visitors vote with an account.", "Visitors cannot vote without an account."),
        ("赵敏吃辣。", "赵敏无辣不欢。"),
        ("Mamie met du sucre.", "Grand-père ne met pas de sucre."),
        ("The pool keeps at least 5 connections.", "The pool keeps at most 50 connections."),
        ("Release 1.8 of the parser needs 4 GB.", "Release 2.0 of the parser needs 6 GB."),
        ("Revenue in 2023 was 2 million.", "Revenue in 2024 was 3 million."),
        ("The cache is fast.", "Should the cache be slow?"),
        ("We deploy on Mondays.", "We could deploy on Fridays."),
        ("The nightly build takes 20 minutes.", "Last night the nightly build took 40 minutes."),
        ("Olga reviewed the export on Monday.", "Olga reviewed the export on Friday."),
        ("GET requests are retried.", "POST requests are not retried."),
        ("The parser has 3 workers.", "The parser has 5 queues."),
        ("The pool has 3 small and 40 big nodes.", "The pool has 5 small and 60 big nodes."),
        ("我吃香菜。", "我弟弟不吃香菜。"),
        ("The pipe organ has a bellows.", "The pipe leaks. Two chairs came. The choir has grown. An organ was sold."),
        ("The stream keeps events for a year.", "A lock is held for an hour and no longer. The stream is new."),
        ("", "The port is 5432."),
        ("The scale was calibrated on 3 May.", "The scale was calibrated on 9 June."),
        ("陈晨周三上英语课。", "陈晨周五上书法课。"),
        ("The desk exports CSV on Mondays.", "The desk exports maps on Fridays."),
        ("The desk exports maps on Mondays.", "The desk exports CSV on Fridays."),
        ("Mr. Brandt sings on Mondays.", "Mrs. Osei sings on Mondays."),
        ("Wards talk over mTLS.", "mTLS is used when wards talk."),
        ("Guests may open reports.", "Guests cannot drop reports."),
        ("The call between cart and price ends after 500 ms.", "The call between cart and stock ends after 350 ms."),
        ("The lamp hangs in the hall.", "The lamp was sold; would Fenwick be closed?"),
        ("The lamp hangs in the hall.", "The lamp is old; the hall and its big red doors were all closed on Monday."),
        ("Lunch is served in the hall.", "Lunch is at noon; deployed things were deleted."),
        ("The metrics service is scraped every 15 seconds.", "The metrics service now listens on port 9090."),
        ("The office in Bergen has two floors.", "The office in Bergen now closes at 20:00."),
        ("July plates: Hermanita 38.2 mg.", "September plates: Hermanita 38.2 and 35.9 mg."),
        ("Rent is due on Fridays.", "Three rents are on Fridays."),
    ],
)
def test_what_only_looks_so_is_left_alone(old: str, new: str) -> None:
    """N1.1: another subject, time, unit or kind; what may both be true; questions and plans; what happened once."""
    assert judged(old, new).contradiction is None


@pytest.mark.parametrize(
    ("old", "new", "cosine", "same"),
    [
        ("Every merge needs two reviews.", "Two reviews are needed for each merge.", 0.8, True),
        ("Every merge needs two reviews.", "Two reviews are needed for each merge.", 0.6, False),
        ("Tokens are valid for an hour.", "The lifetime of tokens is 60 minutes.", 0.8, True),
        ("The key of part A is lost.", "The key of part B is lost.", 0.9, False),
        ("The read timeout is 30 s.", "The write timeout is 60 s.", 0.97, False),
        ("Olga tested the export.", "Olga tested the export well.", 0.9, False),
        ("Olga tested the export.", "Olga tested the export well.", 0.96, True),
        ("Lunch is at noon. The room is small.", "Lunch is at noon. The chef left a note for everybody.", 0.8, False),
        ("The same for us.", "the same, for us!", 0.97, True),
    ],
)
def test_the_same_in_other_words_is_known_by_words_and_meaning(old: str, new: str, cosine: float, same: bool) -> None:
    """N1.1: near-duplicates by claims and words as much as by cosine."""
    assert judged(old, new, cosine).is_same is same


def test_some_relations_have_one_target() -> None:
    """N1.1: another object of a relation is a contradiction where there can be but one."""
    assert [has_one_target(each) for each in ("lives_in", "works_at", "uses", "knows")] == [True, True, False, False]


def test_a_document_is_compared_by_its_beginning() -> None:
    """Bounded work: neither many sentences nor a long one."""
    assert len(claims_of("The port is 1. " * 100)) <= 8
    assert claims_of("word " * 200) == ()


@pytest.mark.parametrize(
    ("text", "old", "new", "cosine", "expected"),
    [
        ("To reach payments use port 8085.", "Payments listens on port 8085.", "Payments moved to 8110.", 0.6, True),
        ("Sign in with Okta.", "Our logins go through Okta.", "Logins go through Keycloak.", 0.5, True),
        ("The relay forwards outgoing mail.", "Outgoing mail goes to the relay.", "Mail goes to Postmark.", 0.8, True),
        # Another value, nothing that was dropped, too far away, and nothing to compare.
        (
            "The ledger listens on port 8090.",
            "Payments listens on port 8085.",
            "Payments moved to port 8110.",
            0.9,
            False,
        ),
        ("Payments has two replicas.", "Payments listens on port 8085.", "Payments moved to port 8110.", 0.6, False),
        ("To reach payments use :8085.", "Payments listens on port 8085.", "Payments moved to port 8110.", 0.4, False),
        ("…", "Payments listens on port 8085.", "Payments moved to port 8110.", 0.9, False),
    ],
)
def test_a_text_is_outdated_where_it_says_what_was_corrected(
    text: str, old: str, new: str, cosine: float, expected: bool
) -> None:
    """N1.1: in other words, and not another value of another thing."""
    assert is_outdated(claims_of(text), claims_of(old), claims_of(new), cosine) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The maximum upload size is 20 MB.", True),
        ("Uploads may be 50 MB, not 20 MB.", False),
        ("The limit of 20 MB for uploads no longer holds.", False),
        ("Uploads go to Frankfurt.", False),
        ("…", False),
    ],
)
def test_a_text_says_a_dropped_value_alone(text: str, expected: bool) -> None:
    """W5.1: without the new one, and not that it ended."""
    assert says_dropped(text, "Uploads may be at most 20 MB.", "Uploads may be at most 50 MB.") is expected


def test_a_text_says_former_words_again_where_it_is_near_and_of_the_same_subject() -> None:
    """W5.1: another word at the same place names another subject."""
    old = "Uploads may be at most 20 MB."
    assert says_again("The maximum upload size is 20 MB.", old, 0.8)
    assert not says_again("The maximum upload size is 20 MB.", old, 0.6)
    assert not says_again("Downloads may be at most 20 MB.", old, 0.8)


def test_a_word_that_is_said_to_be_gone_contradicts_a_near_text_in_any_frame() -> None:
    """N1.1: but not one of another subject, further away."""
    old, new = "Ohne ein Okay von Thomas wird nicht deployt.", "Die Freigabe macht das Team, nicht mehr Thomas."
    assert judged(old, new, 0.64).contradiction
    assert not judged(old, "Das Team hat Urlaub, nicht mehr Thomas.", 0.5).contradiction


def test_texts_that_are_far_from_each_other_need_the_same_words() -> None:
    """N1.1: long ones share words by chance, so below a cosine nothing is said of them, nor of two loose ends."""
    old, new = "The goods lift runs until 22:00.", "The goods lift runs until 20:00."
    assert judged(old, new, 0.5).contradiction
    assert not judged(
        old, f"{new} Karl has the key. Tea is free, cake is 2 euros, and soup is cold.", 0.5
    ).contradiction
    assert not judged(
        "The ledger service is on port 8090 in staging.", "Payments in staging moved to port 8110 of the gateway.", 0.5
    ).contradiction


def test_a_short_restatement_with_another_value_needs_but_one_word() -> None:
    """N1.1: where the texts are near each other, and neither says more than that value."""
    assert judged("本馆满 99 元免运费。", "运费门槛：149 元", 0.6).contradiction is None
    found = judged("In our hall tea costs 2 euros.", "Tea: 3 euros", 0.8).contradiction
    assert found
    assert found.why == "2 euros there, 3 euros here"
    assert not judged("Cherries are sold in the hall at 8 euros.", "Cherries: 80 cents, 100 g", 0.8).contradiction


def test_a_guessed_correction_reaches_only_what_has_the_old_value() -> None:
    """N1.1: nobody said that the new text corrects the old one, so likeness alone is not enough."""
    old, new = claims_of("Payments listens on port 8085."), claims_of("Payments moved to port 8110.")
    same, other = claims_of("Use port 8085 for payments."), claims_of("Payments is reached by a port.")
    assert is_outdated(same, old, new, 0.6, is_guessed=True)
    assert is_outdated(other, old, new, 0.8)
    assert not is_outdated(other, old, new, 0.8, is_guessed=True)

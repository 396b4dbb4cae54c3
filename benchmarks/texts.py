"""Plausible memories made from a seed, for measurements that need many."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TypeVar

from mcp_memory.domain.model.records import Kind, NewRecord, Outcome, checked_details

Thing = TypeVar("Thing")

_WHO = "Alice Bob Chen Dana Emre Farah Goran Hana Ivan Jun Kofi Lena Mateo Nia Omar Priya".split()
_WHAT = """payment service|login page|nightly import|search index|mobile app|billing job|staging cluster|CSV export
|webhook queue|session store|release script|audit log|image resizer|rate limiter|feature flags|backup plan""".replace(
    "\n", ""
)
_DID = """moved|rewrote|postponed|reviewed|measured|removed|documented|rolled back|approved|paired on|tested|profiled"""
_WHY = """because requests timed out under load|after the customer reported missing rows|to make the quarterly deadline
|since the old library is no longer maintained|so that two writers cannot overwrite each other|to halve its memory
|until the security review is done|because nobody could explain the failing test|after reading the incident report
|so that a new colleague can run it in one command""".replace("\n", "")
_EXTRA = "in module core/%s_%d.py|with %s as reviewer, ticket #%d|on %s's branch, build %d|as %s proposed in note %d"

_FAMILY = """Abara Andersen Baker Bianchi Brandt Castro Chandra Costa Dubois Eriksen Farouk Fischer Garcia Haddad Hansen
 Ibrahim Ivanova Jensen Kato Keller Kim Kowalski Larsen Lopez Mbeki Meyer Moreau Nakamura Novak Okafor Olsen Park Patel
 Petrov Quist Ramos Rossi Sato Schmidt Silva Singh Suzuki Tanaka Torres Vogel Wagner Wang Weber Yilmaz Zhang""".split()
_NOUNS = """request user file test error table index query server client session token cache queue log message schema
 build release branch commit review ticket deploy config endpoint payload header field column row key value retry
 timeout limit budget cluster node replica shard backup snapshot migration rollback import export report invoice payment
 customer order account password permission role policy audit alert metric dashboard latency throughput memory disk
 thread process worker job schedule event stream topic partition offset consumer producer webhook callback parser
 tokenizer encoder model vector embedding ranking score filter prefix suffix hash digest signature certificate proxy
 gateway router balancer container image volume secret variable environment staging production sandbox fixture mock
 assertion coverage benchmark profile trace span sampler exporter collector library package dependency version license
 changelog document glossary tutorial screenshot mockup layout button form dialog menu sidebar theme font icon locale
 translation currency discount refund coupon subscription trial quota ledger balance statement receipt shipment
 warehouse supplier catalogue product review rating photo album playlist recipe garden kitchen budget holiday flight
 hotel museum concert guitar marathon allergy birthday school lesson exam homework bicycle insurance mortgage""".split()
_VERBS = """add remove move rename split merge cache retry validate encode decode parse render load store fetch send
 receive schedule cancel restart measure profile document review test mock patch revert deploy migrate rotate encrypt
 sign verify sort filter rank index compress archive restore translate refactor simplify postpone approve""".split()
_SYLLABLES = (
    "al an ar bel cor dan del dor el fen gar hel in kor lan mar mir nel or pel quin ral sel tan ur vel zen".split()
)
_KINDS: Mapping[Kind, int] = {"message": 54, "fact": 20, "decision": 10, "procedure": 6, "episode": 7, "event": 3}
AREAS = "backend frontend data infrastructure security research support design finance home".split()
"""A tenth of all memories is tagged with each of these."""
_TURNS = 12
_TOPICS = 80
_START = 1_767_225_600.0
_PACE_SECONDS = 180.0

_SAID = """I think we should {verb} the {noun} before we touch the {noun2}.
Can you {verb} {identifier} in {path}?
{service} was slow again, the {noun} took {number} ms.
Yes, {person} asked for that {noun} as well.
The {noun} in {service} fails with {identifier}, {number} times since yesterday.
Let me look at the {noun} first.
Thanks! Then I will {verb} the {noun2} and tell {person}.
No, {service} keeps its {noun} in {path}.
What does {identifier} do with the {noun}?
We never had a {noun} for the {noun2} of {service}.
It works on my machine, but the {noun2} of {person} says otherwise.
Ticket #{number} is about the {noun}, not the {noun2}.
I read about {service}: it can {verb} a {noun} without any {noun2}, which would save us {number} euros a month."""
_KNOWN = """{service} listens on port {number} and writes its {noun} to {path}.
{person} owns the {noun} of {service}.
The {noun} of {service} is limited to {number} {noun2} entries a day.
{person} prefers a short {noun} over a long {noun2}.
{identifier} returns the {noun} of the newest {noun2}; it is defined in {path}."""
_DECIDED = """We {verb} the {noun} with {service} instead of {service2}, whose {noun2} fails under load, says {person}.
Decided with {person}: {identifier} stays in {path} until the {noun} is done; a {noun2} would cost {number} hours.
{service} gets its own {noun}, so that a broken {noun2} cannot stop {service2} again, as in ticket #{number}."""
_LEARNT = """To {verb} the {noun} of {service}: run {identifier}, wait for the {noun2}, then {verb2} {path}.
When {service} reports {identifier}, first {verb} the {noun}, then {verb2} the {noun2}; never do both at once."""
_LIVED = """Tried to {verb} the {noun} in {path}; {identifier} raised after {number} rows, back to {noun2} of {service}.
{person} spent {number} minutes on a {noun} that came from {service}, not from our {noun2}; see {path}."""
_HAPPENED = """{service} was deployed with build {number}.
{person} closed ticket #{number} about the {noun}.
The nightly {noun} of {service} failed in {path}."""
_REFUSED = """Never {verb} the {noun} of {service} without asking {person}.
Do not {verb} {path} while the {noun} is running.
No {noun2} for the {noun}: {identifier} fails with it."""
_PATTERNS: Mapping[Kind, Sequence[str]] = {
    "message": _SAID.splitlines(),
    "fact": _KNOWN.splitlines(),
    "decision": _DECIDED.splitlines(),
    "procedure": _LEARNT.splitlines(),
    "episode": _LIVED.splitlines(),
    "event": _HAPPENED.splitlines(),
    "censor": _REFUSED.splitlines(),
}
_SENTENCES: Mapping[Kind, tuple[int, int]] = {
    "decision": (1, 4), "fact": (1, 3), "episode": (3, 8), "procedure": (3, 8), "censor": (1, 1),
}  # fmt: skip
_DETAILS: Mapping[Kind, Mapping[str, str]] = {
    "fact": {},
    "episode": {},
    "decision": {
        "reasons": "The {noun} of {service} is slow.\n{person} needs the {noun} to {verb} the {noun2}.",
        "alternatives": "{verb} the {noun2} instead\nA {noun} without {service2}",
    },
    "procedure": {
        "name": "{verb} the {noun} of {service}",
        "description": "What to do when the {noun} of {service} has to change.",
    },
    "censor": {
        "trigger": "{verb} the {noun}\nworking on {service}\n{identifier}",
        "reason": "The last time the {noun} of {service} was lost.\n{person} has to be able to take it back.",
        "action": "warn\nblock",
        "domain": "code\ntesting\nsecurity\noperations\narchitecture\ndecision\nprivacy\ndebugging",
    },
}
"""What a detail may say, one a line."""
_OUTCOMES: Sequence[Outcome] = ("success", "success", "partial", "pending", "failure")
KNOWLEDGE: Mapping[Kind, int] = {"decision": 2_000, "fact": 5_000, "episode": 1_500, "procedure": 200, "censor": 100}
"""The store that all of assembly has to work at."""
_ASKED = """What did {person} say about the {noun} of {service}?
Why did we {verb} the {noun} with {service}?
Where is {identifier} used?
Which port does {service} listen on?
How do I {verb} the {noun} when the {noun2} fails?
Who owns the {noun} in {path}?
What went wrong with the {noun} last week?
{identifier} raised an error in {path}
Does {person} prefer a {noun} or a {noun2}?
How slow was {service} when the {noun} took too long to {verb}?""".splitlines()


def sentences(count: int, seed: int) -> list[str]:
    """That many distinct sentences of 15 to 30 words, the same for the same seed.

    They share nearly all of their words, which is the worst case for whatever looks words up.
    """
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        who, other = source.sample(_WHO, 2)
        extra = source.choice(_EXTRA.split("|")) % (other.lower(), source.randrange(10_000))
        what, did, why = (source.choice(part.split("|")) for part in (_WHAT, _DID, _WHY))
        made[f"{who} {did} the {what} {why}, {extra}."] = None
    return list(made)


def memories(count: int, seed: int) -> list[NewRecord]:
    """That many distinct memories as an agent has them after some months, the same for the same seed.

    Half are dialogue turns in sessions, the rest facts, decisions, how-tos and events; each has one of the `AREAS` and
    the name of its topic as tags. Words, people, services, identifiers and paths follow Zipf's law within a topic.
    """
    source = random.Random(seed)
    made: dict[str, NewRecord] = {}
    for item in _told(source, _topics()):
        made.setdefault(item.text, item)
        if len(made) == count:
            break
    return list(made.values())


def knowledge(counts: Mapping[Kind, int], seed: int) -> list[NewRecord]:
    """So many distinct records of each kind, mixed, as an agent has them after years; the same for the same seed.

    Longer than `memories`: decisions with reasons, alternatives and outcome, procedures of several numbered steps under
    a name, episodes of several sentences, censors with trigger, reason, action and often a domain.
    """
    source = random.Random(seed)
    wanted: list[Kind] = [kind for kind, count in counts.items() for _ in range(count)]
    source.shuffle(wanted)
    moments = _moments(source, _topics())
    made: dict[str, NewRecord] = {}
    for kind in wanted:
        item = _learnt(source, kind, next(moments))
        while item.text in made:
            item = _learnt(source, kind, next(moments))
        made[item.text] = item
    return list(made.values())


def shared_out(size: int) -> dict[Kind, int]:
    """So many records in all, the kinds among them as in `KNOWLEDGE`."""
    total = sum(KNOWLEDGE.values())
    counts: dict[Kind, int] = {kind: size * count // total for kind, count in KNOWLEDGE.items()}
    counts["fact"] += size - sum(counts.values())
    return counts


def questions(count: int, seed: int) -> list[str]:
    """That many distinct questions about such memories; some speak of a time, some of things that nobody mentioned."""
    source, topics = random.Random(seed), _topics()
    made: dict[str, None] = {}
    while len(made) < count:
        made[_filled(source.choice(_ASKED), _drawn(source, topics), source)] = None
    return list(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Topic:
    """What one part of the work speaks of, the most frequent first."""

    name: str
    nouns: Sequence[str]
    verbs: Sequence[str]
    people: Sequence[str]
    services: Sequence[str]
    identifiers: Sequence[str]
    paths: Sequence[str]


def _topics() -> list[_Topic]:
    """Always the same ones: questions are about what memories tell."""
    source = random.Random(1)
    return [_topic(source) for _ in range(_TOPICS)]


def _topic(source: random.Random) -> _Topic:
    nouns = source.sample(_NOUNS, len(_NOUNS) // 2)
    verbs = source.sample(_VERBS, len(_VERBS))
    services = ["".join(source.choices(_SYLLABLES, k=source.randint(2, 3))).capitalize() for _ in range(40)]
    return _Topic(
        name=services[0].lower(),
        nouns=nouns,
        verbs=verbs,
        people=[f"{source.choice(_WHO)} {source.choice(_FAMILY)}" for _ in range(30)],
        services=services,
        identifiers=[_identifier(source, nouns, verbs) for _ in range(120)],
        paths=[f"{source.choice(nouns)}/{source.choice(nouns)}_{source.choice(nouns)}.py" for _ in range(60)],
    )


def _identifier(source: random.Random, nouns: Sequence[str], verbs: Sequence[str]) -> str:
    verb, noun, other = source.choice(verbs), source.choice(nouns), source.choice(nouns)
    return source.choice([f"{verb}_{noun}_{other}", f"{noun.capitalize()}{other.capitalize()}Error", f"{verb}_{noun}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """When something was said or learnt, in which session and turn of it, on which topic and by whom."""

    session_id: str
    topic: _Topic
    user: str
    turn: int
    at: float


def _moments(source: random.Random, topics: Sequence[_Topic]) -> Iterator[_Moment]:
    """One after the other, in the order of time, without end."""
    now, session = _START, 0
    while True:
        session += 1
        topic = _drawn(source, topics)
        user = _drawn(source, topic.people)
        for turn in range(source.randint(2, 2 * _TURNS)):
            now += source.expovariate(1 / _PACE_SECONDS)
            yield _Moment(session_id=f"session-{session}", topic=topic, user=user, turn=turn, at=now)
        now += source.expovariate(1 / (20 * _PACE_SECONDS))


def _told(source: random.Random, topics: Sequence[_Topic]) -> Iterator[NewRecord]:
    """One memory after the other, in the order of time, without end."""
    for moment in _moments(source, topics):
        (kind,) = source.choices(list(_KINDS), list(_KINDS.values()))
        is_turn = kind == "message"
        role = ("user", "assistant")[moment.turn % 2] if is_turn else None
        yield NewRecord(
            text=_filled(source.choice(_PATTERNS[kind]), moment.topic, source),
            kind=kind,
            importance=float(source.randint(1, 10)),
            tags=(moment.topic.name, source.choice(AREAS)),
            session_id=moment.session_id,
            occurred_at=moment.at,
            speaker=(moment.user if role == "user" else "Assistant") if is_turn else None,
            role=role,
        )


def _learnt(source: random.Random, kind: Kind, moment: _Moment) -> NewRecord:
    """A record of that kind with the details that its kind has."""
    topic = moment.topic
    says = [_filled(source.choice(_PATTERNS[kind]), topic, source) for _ in range(source.randint(*_SENTENCES[kind]))]
    details = {name: _filled(source.choice(each.splitlines()), topic, source) for name, each in _DETAILS[kind].items()}
    is_numbered = kind == "procedure"
    return NewRecord(
        text="\n".join(f"{step}. {said}" for step, said in enumerate(says, 1)) if is_numbered else " ".join(says),
        kind=kind,
        importance=float(source.randint(1, 10)),
        confidence=source.choice((0.5, 0.7, 0.9)) if kind == "decision" else None,
        outcome=source.choice(_OUTCOMES) if kind in ("decision", "episode") else None,
        tags=(topic.name, source.choice(AREAS)),
        details=checked_details(kind, details),
        session_id=moment.session_id,
        occurred_at=moment.at,
    )


def _filled(pattern: str, topic: _Topic, source: random.Random) -> str:
    return pattern.format(
        noun=_drawn(source, topic.nouns),
        noun2=_drawn(source, topic.nouns),
        verb=_drawn(source, topic.verbs),
        verb2=_drawn(source, topic.verbs),
        person=_drawn(source, topic.people),
        service=_drawn(source, topic.services),
        service2=_drawn(source, topic.services),
        identifier=_drawn(source, topic.identifiers),
        path=_drawn(source, topic.paths),
        number=source.randrange(2, 9_000),
    )


def _drawn(source: random.Random, things: Sequence[Thing]) -> Thing:
    """One of them, each half as often as the one that is half as far down (Zipf's law)."""
    return source.choices(things, cum_weights=_shares(len(things)))[0]


@cache
def _shares(count: int) -> list[float]:
    return list(accumulate(1 / place for place in range(1, count + 1)))

"""Reads what a text claims, sentence by sentence: of what, which values, denied or not, and what holds no longer.

Independent of models. `conflicts` compares claims.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from mcp_memory.domain.text.lexicon import QUESTION_SIGNS, UNSPACED
from mcp_memory.domain.text.quantities import Quantity, Words, quantities_in
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.words import folded, stem_forms

MOST_CLAIMS = 8
"""Claims of one text: a text with more is a document, of which only the beginning is compared."""
MOST_CHARACTERS = 400
"""Longest sentence that is one claim."""
MOST_READ = 2_000
"""Characters read of a text."""
MOST_DISMISSED = 5
"""Words and values of a clause that says no more than what is gone."""
KEPT = 2_000
"""Texts of which the claims are kept: a new record is compared with the same few again and again."""

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KINDS = frozenset(_DATA["kinds"]["all"].split())
"""Words that only say what kind of thing a name is."""
_CONCEPTS = Words(_DATA["concepts"])
LIGHT = frozenset(word for words in _DATA["light"].values() for word in words.split())
"""Words that claims are compared without."""
_LIGHT_UNSPACED = "|".join(sorted(_DATA["light"]["zh"].split(), key=len, reverse=True))
_CUES = {name: text.replace("\n", "") for name, text in _DATA["cues"].items()}

_OPENING_QUOTES = frozenset('"“„«‘「《')
_L = rf"[^\W{UNSPACED}]"
# "`new-checkout`", "数据库", "api.example.org", "rate-limit"
_TERM = re.compile(rf"`(?P<ticked>[^`\s]{{1,80}})`|(?P<unspaced>[{UNSPACED}]+)|{_L}(?:[.@/\\:#+-]{{0,2}}{_L})*+")
_UNSPACED_WORD = re.compile(f"(?P<concept>{_CONCEPTS.unspaced})|(?P<light>{_LIGHT_UNSPACED})|.")
# "src/app.py", "maxRetries"; not "rate-limit"
_CODE = re.compile(r"[\d_./\\@:#]|[a-z][A-Z]")
# "users.email"; not "acme.com", "config.toml"
_MEMBER = re.compile(
    r"[a-z_]{3,40}\.(?!com|org|net|dev|app|toml|yaml|yml|json|local|corp|html?|txt|example)[a-z_]{3,40}"
)
# "a; b"
_CLAUSE = re.compile(r";\s|；|\s[–—]\s")
# "Gateway notes: | written in Go"; not "https://"
_HEADED = re.compile(r"([^:：,，]{1,60}(?=[:：](?!//|\s?\d\d\b)))?([:：]?)\s?(.*)", re.DOTALL)
_COMMA = re.compile(r",\s|，|\s?\n")
# "Change of plan: "
_ANNOUNCED = re.compile(rf"\W{{0,3}}(?:{_CUES['announced']})\b", re.IGNORECASE)
# "because clients kept parsing strings"; "不变"
_ASIDE = re.compile(
    rf"(?<=\w)[\s,;:(–-]+(?:{_CUES['reason']})\b.*|(?<=.)[，；]?(?:{_CUES['reason_unspaced']})[^，。]*|(?:{_CUES['no_denial']})",
    re.IGNORECASE,
)
"""Reasons, and denials that deny nothing: they are no part of the claim."""


def _cue(name: str) -> re.Pattern[str]:
    """Return the pattern of a list of cues, in all scripts, e.g. `change`: "now", "nicht mehr", "现在"."""
    return re.compile(rf"(?<!\w)(?:{_CUES[name]})(?!\w)|{_CUES[name + '_unspaced']}", re.IGNORECASE)


# "Dana reviewed the export"; not "Dana decided to use uv"
_EVENT = re.compile(
    rf"\W{{0,3}}(?!{_CUES['we_settled']})[A-Z]{_L}{{1,30}} (?!(?:{_CUES['settled']})\b)"
    rf"(?:[a-z]{{2,20}}ed|{_CUES['done']})\b"
)
# "Dana left; Omar stayed"; "Dana left. Omar stayed."; not "Dana wrote v1.2."
_END_INSIDE = re.compile(r"[.!?:;]\s|[。！？；\n]|\s[–—]\s")
_DENIED, _LACKS, _CHANGE, _OPEN, _MANY = _cue("denied"), _cue("lacks"), _cue("change"), _cue("open"), _cue("many")
_ADDS, _PAST, _ENDED = _cue("adds"), _cue("past"), _cue("ended")
_HAPPENED, _DISMISSED, _FORBIDS = _cue("happened"), _cue("dismissed"), _cue("forbids")
_SIGN = "[^,;.:()，。；、]"
_STOP = rf"(?=\s(?:{_CUES['stop']})\b|[,;.:()，。；、]|$)"
_GONE = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "instead of Redis"; "no longer lives in Graz"; "Redis was replaced by"
        rf"(?<!\w)(?:{_CUES['gone']})\s(?P<gone>{_SIGN}{{1,60}}?){_STOP}",
        rf"(?<!\w)no longer\s(?P<gone>{_SIGN}{{1,80}}?)(?=\s(?:but|and|because|since)\b|[,;.:()]|$)",
        rf"(?:^|[,;.:]\s)(?P<gone>{_SIGN}{{1,60}}?)\s(?:{_CUES['replaced']})\b",
        # "Redis, not Memcached"; "prefer tabs over spaces"; "not Redis but"
        rf",\s(?:not|nicht|pas|et non|no)\s(?P<gone>{_SIGN}{{1,40}}?)(?=[,;.:()]|$)",
        rf"(?:^\W{{0,3}}\w{{1,20}}|\b(?:prefer\w{{0,3}}|chose|use|like)\s{_SIGN}{{1,40}}?)\sover\s(?P<gone>(?![\d$€£]){_SIGN}{{1,40}}?){_STOP}",
        rf"(?<!\w)(?:not|nicht|pas|no)\s(?P<gone>{_SIGN}{{1,40}}?),?\s(?:but|sondern|mais|sino)(?!\w)",
    )
)
"""The words around what holds no longer."""
_GONE_UNSPACED = tuple(
    re.compile(pattern)
    for pattern in (
        # "而不是 Redis"; "从 Redis 换成"; "不是 Redis 而是"; "Redis 被 … 取代"
        rf"(?:{_CUES['gone_unspaced']})(?P<gone>{_SIGN}{{1,16}}?){_STOP}",
        rf"[从由把将](?P<gone>{_SIGN}{{1,20}}?)(?:{_CUES['to_unspaced']})",
        rf"不是(?P<gone>{_SIGN}{{1,20}}?)[，,]?而?是",
        rf"^(?P<gone>{_SIGN}{{1,20}}?)(?:{_CUES['replaced_unspaced']})(?=.{{1,20}}(?:取代|替换|代替|替代))",
    )
)
_FROM_TO = re.compile(
    rf"(?<!\w)(?:(?:from|von|vom|de|du)\s|d['’])(?P<gone>{_SIGN}{{1,40}}?)\s(?:over )?(?:{_CUES['to']})(?!\w)",
    re.IGNORECASE,
)
"""The words around what holds no longer in a sentence about a change; elsewhere "from 9 to 5" may be a span."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """A content word as said, and its place. Words that say one thing share a key; `sign` is -1 for an opposite.

    `weight` is 0.5 for one sign of a script without spaces. `narrows` is True for a word that limits what a claim is
    about ("in production").
    """

    key: str
    said: str
    at: int
    weight: float = 1.0
    sign: int = 1
    stems: tuple[str, ...] = ()
    is_name: bool = False
    narrows: bool = False

    def is_like(self, other: "Term") -> bool:
        """Return True for one word in two inflections."""
        return self.key == other.key or any(map(str.__eq__, self.stems, other.stems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence's statement. `gone_terms` and `gone_quantities` hold no longer by its words.

    `is_open` is True for questions, plans and guesses, `adds` where it says that something is so too, `is_many` where
    its verb takes many objects ("speaks"), `is_ended` where something ended, `is_event` where somebody did something
    once: "Dana reviewed the export".
    """

    terms: tuple[Term, ...]
    quantities: tuple[Quantity, ...]
    gone_terms: tuple[Term, ...]
    gone_quantities: tuple[Quantity, ...]
    is_denied: bool
    is_change: bool
    is_open: bool
    adds: bool
    is_past: bool
    is_ended: bool
    is_many: bool
    is_event: bool


def claims_of(text: str) -> tuple[Claim, ...]:
    """Return the claims of a text's first sentences and of their parts, without those that are too long to be one."""
    return _claims_of(text[:MOST_READ])


@lru_cache(maxsize=KEPT)
def _claims_of(text: str) -> tuple[Claim, ...]:
    claims: list[Claim] = []
    # A setting ("max_upload = 10M") is no sentence, yet all that its text claims.
    for sentence in [*sentences_of(text)] or ([text] if len(text) <= MOST_CHARACTERS and "\n" not in text else []):
        for clause in _CLAUSE.split(sentence):
            if len(clause) <= MOST_CHARACTERS and len(claims) < MOST_CLAIMS and (claim := _claim(clause)):
                claims += [
                    _dismissal(clause, claim) if claims else claim,
                    *(() if claim.is_event else _parts(clause, claim)),
                ]
    return tuple(claims[:MOST_CLAIMS])


def _dismissal(text: str, claim: Claim) -> Claim:
    """Return the claim with its subject gone, where it tells another claim's reason: "Vault was shut down"."""
    items = sorted(
        [*claim.terms, *claim.quantities], key=lambda each: each.start if isinstance(each, Quantity) else each.at
    )
    if claim.is_open or claim.gone_terms or len(items) > MOST_DISMISSED or not items or not _DISMISSED.search(text):
        return claim
    subject = items[0]
    if isinstance(subject, Quantity):
        others = tuple(each for each in claim.quantities if each is not subject)
        return replace(claim, quantities=others, gone_quantities=(*claim.gone_quantities, subject))
    is_name = subject.is_name or subject.said[0].isupper() or len(items) < 3
    if subject.key.startswith("=") or not is_name:
        return claim
    others = tuple(term for term in claim.terms if term is not subject)
    return replace(claim, terms=others, gone_terms=(subject,))


def tells_one_event(text: str) -> bool:
    """Return True for one sentence that says what somebody did once, at a hundredth of the cost of its claim."""
    return len(text) <= MOST_CHARACTERS and bool(_EVENT.match(text)) and not _END_INSIDE.search(text)


def concept_of(word: str) -> str:
    """Return the key that words of one meaning share, e.g. "=live" for "lives" and "wohnt"; "" for other words."""
    meaning = _CONCEPTS.get(word)
    return f"={meaning[1]}" if meaning else ""


def together(claims: Sequence[Claim]) -> Claim:
    """Return what several claims of one text say together; a denial belongs to one of them alone."""
    return Claim(
        terms=tuple(term for claim in claims for term in claim.terms),
        quantities=tuple(each for claim in claims for each in claim.quantities),
        gone_terms=tuple(term for claim in claims for term in claim.gone_terms),
        gone_quantities=tuple(each for claim in claims for each in claim.gone_quantities),
        is_denied=False,
        is_change=any(claim.is_change for claim in claims),
        is_open=any(claim.is_open for claim in claims),
        adds=any(claim.adds for claim in claims),
        is_past=any(claim.is_past for claim in claims),
        is_ended=any(claim.is_ended for claim in claims),
        is_many=any(claim.is_many for claim in claims),
        is_event=all(claim.is_event for claim in claims),
    )


def _claim(text: str) -> Claim | None:
    text = _ASIDE.sub("", text)
    quantities = quantities_in(text)
    taken = bytearray(len(text))
    for each in quantities:
        taken[each.start : each.start + len(each.said)] = b"\1" * len(each.said)
    terms = list(_terms(text, taken))
    if not terms:
        return None
    has_date = any(each.sort == "date" for each in quantities)
    is_change = bool(_CHANGE.search(text))
    patterns = (*_GONE, *(() if text.isascii() else _GONE_UNSPACED), *([_FROM_TO] if is_change else ()))
    gone = [match.span("gone") for pattern in patterns for match in pattern.finditer(text)]
    return Claim(
        terms=tuple(term for term in terms if not _is_within(term.at, gone)),
        quantities=tuple(each for each in quantities if not _is_within(each.start, gone)),
        gone_terms=tuple(term for term in terms if _is_within(term.at, gone)),
        gone_quantities=tuple(each for each in quantities if _is_within(each.start, gone)),
        is_denied=_is_denied(text, terms, gone),
        is_change=is_change or bool(gone),
        is_open=text.rstrip().endswith(QUESTION_SIGNS) or bool(_OPEN.search(text)),
        adds=bool(_ADDS.search(text)),
        is_past=bool(_PAST.search(text)),
        is_ended=bool(_ENDED.search(text)) and not _FORBIDS.search(text),
        is_many=bool(_MANY.search(text)),
        is_event=bool(_EVENT.match(text)) or (has_date and bool(_HAPPENED.search(text))),
    )


def _parts(text: str, claim: Claim) -> Iterator[Claim]:
    """Yield the claims between commas, each with the heading before a colon, and the whole without an announcement."""
    headed = _HEADED.match(_ASIDE.sub("", text))
    head, colon, rest = headed.groups(default="") if headed else ("", "", text)
    pieces = [*dict.fromkeys(filter(None, _COMMA.split(rest)))]
    is_opening = not colon and len(pieces) > 1 and pieces[0].count(" ") < 4
    if is_opening:  # "In production, …"
        head, colon, pieces = pieces[0], ", ", pieces[1:]
    texts = [rest] if colon and _ANNOUNCED.match(head) else []
    texts += [f"{head}{colon} {piece}" for piece in pieces] if len(pieces) > 1 else []
    for at, (said, part) in enumerate((said, part) for said in texts if (part := _claim(said))):
        yield replace(
            _dismissal(said, part) if at and not colon else part,
            is_change=claim.is_change,
            is_open=claim.is_open,
            adds=claim.adds,
            is_past=claim.is_past,
            is_ended=claim.is_ended,
            is_event=claim.is_event,
        )


def _is_within(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= at < end for start, end in spans)


def _is_denied(text: str, terms: Sequence[Term], gone: Sequence[tuple[int, int]]) -> bool:
    """Return True for a denial, an opposite or a lack, not for two of them; what is gone does not count.

    "Not allowed" and "forbidden" deny; "not forbidden" and "never without tests" do not.
    """
    is_opposite = any(term.sign < 0 and not _is_within(term.at, gone) for term in terms)
    beside = [(start - 4, end + 1) for start, end in gone]
    denials = (any(not _is_within(match.start(), beside) for match in cue.finditer(text)) for cue in (_DENIED, _LACKS))
    return bool((is_opposite + sum(denials)) % 2)


def _terms(text: str, taken: bytearray) -> Iterator[Term]:
    """Yield the content words outside of the places that values have taken."""
    for match in _TERM.finditer(text):
        at, word = match.start(), match.group()
        if match["ticked"]:
            yield Term(key=folded(match["ticked"]), said=word, at=at, is_name=True)
        elif match["unspaced"]:
            yield from _unspaced_terms(word, at, taken)
        else:
            is_compound = word[0].isupper() and not _CODE.search(word)
            parts = word.split("-") if is_compound else word.split(".") if _MEMBER.fullmatch(word) else [word]
            for part in parts:
                if part and not taken[at] and (term := _term(part, at)):
                    yield replace(term, is_name=True) if text[at - 1 : at] in _OPENING_QUOTES else term
                at += len(part) + 1


def _term(word: str, at: int) -> Term | None:
    is_code = bool(_CODE.search(word))
    is_shouted = word.isupper() and (len(word) > 1 or (at > 0 and word != "I"))  # "GET"; "part A"
    if (word.casefold() in LIGHT and not (is_shouted and word != "NOT")) or (len(word) == 1 and not word.isupper()):
        return None
    if not is_code and (meaning := _CONCEPTS.get(word)):
        return _concept(meaning, word, at)
    key = folded(word)
    is_name = is_code or (word[0].isupper() and at > 0)
    return Term(key=key, said=word, at=at, stems=() if is_code else stem_forms(key), is_name=is_name)


def _concept(meaning: tuple[str, str], said: str, at: int) -> Term:
    sort, name = meaning
    return Term(key=f"={name}", said=said, at=at, sign=-1 if sort == "turned" else 1, narrows=sort == "narrowed")


def _unspaced_terms(run: str, start: int, taken: bytearray) -> Iterator[Term]:
    for match in _UNSPACED_WORD.finditer(run):
        at, said = start + match.start(), match.group()
        if not taken[at] and not match["light"]:
            meaning = _CONCEPTS.get(said) if match["concept"] else None
            yield _concept(meaning, said, at) if meaning else Term(key=said, said=said, at=at, weight=0.5)

"""Makes a sentence shorter so that what remains is still a sentence, and still true. Knows no tokens.

Only whole stretches are left out; no word is added. What limits a statement (not, never, only, unless, if …), excepts
from it (excluding, apart from …) or takes it back (rolled back, turned out false …) stays.
"""

import re
from collections.abc import Callable, Iterator

from mcp_memory.domain.text.words import UNSPACED

_DENIED = (
    "not|never|no|without|unless|only|cannot|neither|nor|none|nobody|nothing|[a-z]+n['’]t"
    "|(?:do|does|did|ca|could|wo|would|is|are|was|were|should|must|need|has|have|had)nt"
)
_EXCEPTED = (
    r"except(?:ing|s|ions?)?|exclud(?:es?|ed|ing)|exclusions?|exempt(?:s|ed|ing|ions?)?|barring|besides|minus"
    r"|skip(?:s|ped|ping)?|save for|(?:apart|aside) from|other than|omit(?:s|ted|ting)?"
)
_REVERSED = (
    r"revert(?:s|ed|ing)?|roll(?:s|ed|ing)?[ -]?backs?|undo(?:es|ing|ne)?|cancel(?:s|l?ed|l?ing)?|withdr[ae]wn?"
    r"|retracted|rescinded|abandon(?:s|ed|ing)?"
)
_LIMITED = (
    r"but|however|although|though|if|until|when|provided|instead|rather|fail(?:s|ed|ing|ures?)?|hardly|barely"
    r"|avoid(?:s|ed|ing)?|reject(?:s|ed|ing|ions?)?|forb(?:ids?|idden|idding|ade)|ban(?:s|ned|ning)?"
    r"|prohibit(?:s|ed|ing)?|prevent(?:s|ed|ing)?|refus(?:es?|ed|ing|al)|den(?:y|ies|ied|ying|ials?)"
    r"|disabl(?:es?|ed|ing)|lack(?:s|ed|ing)?|stop(?:s|ped|ping)?|broken?|false(?:ly)?|untrue|wrong(?:ly)?|incorrect(?:ly)?"
)
_DENIAL = re.compile(rf"(?<![a-z])(?:{_DENIED}|{_EXCEPTED})(?![a-z])", re.IGNORECASE)
_LIMIT = re.compile(rf"(?<![a-z])(?:{_DENIED}|{_EXCEPTED}|{_REVERSED}|{_LIMITED})(?![a-z])", re.IGNORECASE)
_DENIAL_UNSPACED = re.compile(r"[不没無无非未别勿莫禁]|除了|只|ない|ません|だけ|しか")
_LIMIT_UNSPACED = re.compile(r"[不没無无非未别勿莫禁但]|除了|只|如果|ない|ません|ず[にが、。]|だけ|しか|もし|場合")
_WEIGHTY = re.compile(r"\d|\w_\w|[a-z][A-Z]|`|(?<=[\w,;(] )[A-Z]\w|\b(?:because|since|due to)\b|因为|由于|ため|ので")
"""Numbers, identifiers, names and reasons: left out only where nothing else can be."""

_OPENER = re.compile(
    r"^(?:(?:however|therefore|thus|hence|moreover|furthermore|also|additionally|in addition|besides|as a result"
    r"|consequently|accordingly|in this case|in that case|in (?:short|summary|conclusion|general|fact|other words)"
    r"|to (?:sum up|summari[sz]e)|after (?:that|all)|then|finally|first(?:ly)?|second(?:ly)?|next|lastly|meanwhile"
    r"|of course|obviously|clearly|basically|essentially|actually|well|so|ok(?:ay)?|anyway|interestingly|unfortunately"
    r"|fortunately|luckily|as (?:mentioned|discussed|noted|expected|you can see)(?: (?:above|earlier|before))?"
    r"|at the end of the day|long story short|by the way|btw|fyi|note|decided|decision|update|summary|info)[,:]\s+"
    r"|please\s+(?!note)|(?:please )?note that\s+|it (?:turns|turned) out that\s+|as it (?:turns|turned) out,?\s+"
    r"|it (?:is|was) (?:clear|important to note|worth noting|worth mentioning) that\s+|keep in mind that\s+"
    r"|(?:and|so)\s+(?=we |the |it |i |this ))",
    re.IGNORECASE,
)
_UNSPACED_OPENER = re.compile(
    r"^(?:总之|请?注意|因此|所以|另外|此外|其实|首先|最后|然后|そして|また|つまり|結局|ちなみに)[，、,]?"
)
_FILLER = re.compile(
    r"(?<!not)(?<!n't)(?<!not too)(?<=[a-z]) (?:very|really|quite|basically|actually|simply|essentially|extremely"
    r"|completely|absolutely|obviously|clearly|of course|in fact|indeed|somewhat|therefore|thus|consequently"
    r"|pretty much|as well|kind of|sort of)"
    r"(?=[ .!])",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\s\([^()]*\)|（[^（）]*）|\s?\[\d{1,3}\]")
_DASHED = re.compile(r"\s(?:[—–]|--)\s[^—–]{1,200}?\s(?:[—–]|--)(?=\s)")
_ASIDE = re.compile(
    r",\s(?:which|who|whose|where|including|such as|for example|for instance|e\.g\.|along with|together with|as well as"
    r"|according to|in particular|of course|though|too|after|being|called|known as|so to speak|by the way|in the end"
    r"|at least|\w+ing)\b[^,;:()]*(?P<close>,(?=\s)|(?=[;.!?]|$))"
)
_ASIDE_WORD = re.compile(
    r"(?:which|who|whose|where|but|so|then|too|though|we|it|they|he|she|i|this|that|\w+ing)\b", re.IGNORECASE
)
_TAIL = re.compile(
    r"\s(?:so that|in order to|which|where|while|whereas|such as|for example|for instance|as well as|including|e\.g\."
    r"|along with|together with|thanks to|according to|because|since|due to|by \w+ing|as part of|with the help of"
    r"|at the same time|and then|to make sure)\s"
)
_A_THAT = re.compile(r"\ban?\s(?:[\w-]+\s){1,3}?(?P<that>that\s)")
_BREAK = re.compile(
    r"[,;:](?=\s)|\s(?:[—–-]|--)(?=\s)|[，；](?!$)|、(?!$)"
    r"|(?<=\w)(?:, )?(?=\s(?:and|or)\s(?:we|it|they|then|he|she|i)\s)"
)
_SUBORDINATE = re.compile(
    r"^(?:if|when|whenever|because|although|though|while|since|unless|until|after|before|once|to|for|with|without|in|on|at"
    r"|by|during|as|given|from|whether|where|under|instead|rather|despite|apart|except|due|thanks|according|both|either)\b"
    r"|^(?:如果|若|当|因为|由于|虽然|除了|为了|在)",
    re.IGNORECASE,
)
_DROPPABLE_LEAD = re.compile(
    r"^(?:although|though|while|since|because|given|according to|thanks to|due to"
    r"|as (?:we|the|it|i|you) |after (?:some|a|an|two|three|several|much|many|long)"
    r"|with (?:that|this)|for (?:the record|now))\b|^(?:因为|由于|虽然)",
    re.IGNORECASE,
)
_CONCEDES = re.compile(r"^(?:although|though|虽然)", re.IGNORECASE)
_LEAD = re.compile(r"^[^,;，；、]{3,200}?[,，、]\s*")
_DANGLES = re.compile(
    r"\b(?:and|or|but|the|an?|of|to|with|for|in|on|at|by|from|that|which|than|as|is|are|was|were|be|we|it|its|our|their|his"
    r"|her|both|either|between|because|so|if|when|after|before|into|over|about|per|via|within|under|any|each|every|some"
    r"|no|not|following|follows|these|this|namely)[,;:]?$",
    re.IGNORECASE,
)
_COMMA = re.compile(r",\s|，")
_TURN = re.compile(rf"\b(?:but|unless|however|only|until|never|if|{_EXCEPTED}|{_REVERSED})\b", re.IGNORECASE)
_REASON_END = re.compile(r"[,;:—–，；]")
_REASON = re.compile(r"[,;]?\s(?:because|since|due to|so that|in order to|(?:even )?though|although)\s")
_KANA = re.compile("[\u3040-\u30ff]")
_IS_UNSPACED = re.compile(f"[{UNSPACED}]")
_STOPPED = re.compile(r"[.!?。！？]$")
_PLAIN_START = re.compile(r"[a-z]+(?=[\s,.;:!?])")
_CLAUSE_START = re.compile(
    r"(?<=[,;:])\s|(?<=[，；：])|\s(?=[—–(]|(?:but|and|or|so|because|unless|except|only|may|must|should|can|will"
    r"|shall|is|are)\s)"
)
_CLAUSE_END = re.compile(r"[,;:，；：](?=\s|[^\s\x00-\x7f])|\s[-–—(]\s?|(?<=[、。])")

MIN_REST = 5
"""Characters: fewer are no statement."""
MAX_MEMBER_WORDS = 4
"""A longer stretch between commas is taken for a clause, not for a member of a list."""

_LINE_OPENER = re.compile(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,+Z]*\]?\s+|\[?\d\d:\d\d:\d\d[\d.,]*\]?\s+"
    r"|[\w./\\-]+:\d+(?::\d+)?:?\s+(?:-\s+)?)+"
)
"""When and where: what a line of output begins with before it says what happened."""

MAX_SENTENCE = 600
"""Characters: what is longer is no sentence, and is only ended early."""
MAX_CUTS = 12
"""Stretches of one sort that are tried, and that are left out one after the other for one reason."""
MAX_STARTS = 6
"""Clauses before a denial from which on a sentence may be told."""

Fits = Callable[[str], bool]
Cut = Callable[[str, int], str]


def condensed(sentence: str, fits: Fits) -> str | None:
    """The least shortened form that fits, the sentence itself included; None where none does."""
    return next((form for form in shorter_forms(sentence) if fits(form)), None)


def condensed_line(line: str, fits: Fits) -> str | None:
    """The same for a line of code or output, which only loses the time or place it begins with."""
    return next((form for form in (line, _LINE_OPENER.sub("", line, count=1)) if form and fits(form)), None)


def shorter_forms(sentence: str) -> Iterator[str]:
    """The sentence, then ever shorter ones, each of them grammatical wherever the sentence is plain."""
    yield sentence
    if len(sentence) > MAX_SENTENCE:
        return
    sentence = _without_opener(sentence)
    yield sentence
    if _FILLER.search(sentence):
        sentence = _FILLER.sub("", sentence)
        yield sentence
    for keep in (_WEIGHTY, None):
        for _ in range(MAX_CUTS):
            if (shorter := _once_shorter(sentence, keep)) is None:
                break
            sentence = shorter
            yield sentence


def shortened(sentence: str, limit: int, count: Callable[[str], int], cut: Cut) -> str:
    """The last resort: the sentence ends early, with an ellipsis, where a reader would pause; at most `limit` tokens.

    Where a denial would be lost so, its clause stands behind the ellipsis.
    """
    if len(sentence) > MAX_SENTENCE:
        return ended(sentence, limit, count, cut)
    head = _begun(sentence, limit - 2, cut)
    reason = _REASON.search(sentence)
    said = sentence[: reason.start()] if reason else sentence
    lost = _first_denial(said, len(head)) if _first_denial(head, 0) is None else None
    if lost is not None:
        end = _CLAUSE_END.search(said, lost)
        stop = end.start() if end else len(said)
        starts = [0, *(m.end() for m in _CLAUSE_START.finditer(said, 0, lost + 1) if m.end() <= lost), lost]
        tails = (f"… {form}" for start in starts[-MAX_STARTS:] for form in shorter_forms(said[start:stop].strip()))
        if tail := next((tail for tail in tails if count(tail) <= limit), ""):
            start = _begun(said[:lost], limit - count(tail), cut)
            joined = f"{start.rstrip(',;:')} {tail}"
            is_told = start.count(" ") > 1 and _is_balanced(start) and tail[2:] not in start
            return joined if is_told and count(joined) <= limit else tail
    return ended(sentence, limit, count, cut)


def ended(text: str, limit: int, count: Callable[[str], int], cut: Cut) -> str:
    """The text's beginning and an ellipsis, the end where a reader would pause; at most `limit` tokens."""
    head = _begun(text, limit - 2, cut)
    shown = head + "…"
    return shown if count(shown) <= limit else cut(head, limit)


def _limits_beyond_reason(text: str) -> bool:
    """The same, but that a reason or concession may deny what it likes: without it the statement holds as it did."""
    reason = _REASON.match(text)
    if not reason:
        return _limits(text)
    end = _REASON_END.search(text, reason.end())
    return bool(_TURN.search(text)) or bool(end and _limits(text[end.start() :]))


def _limits(text: str) -> bool:
    """Whether a text limits or denies what is said around it."""
    return bool(_LIMIT.search(text)) or (not text.isascii() and bool(_LIMIT_UNSPACED.search(text)))


def _first_denial(text: str, start: int) -> int | None:
    """Where a text first denies something or excepts from it; None where it does not."""
    found = _DENIAL.search(text, start)
    if not found and not text.isascii():
        found = _DENIAL_UNSPACED.search(text, start)
    return found.start() if found else None


def _begun(text: str, limit: int, cut: Cut) -> str:
    """The longest prefix that ends at a clause in its second half, else at a word."""
    prefix = cut(text, limit)
    if prefix == text:
        return text.rstrip()
    clauses = [m.start() for m in _CLAUSE_END.finditer(prefix) if m.start() > len(prefix) // 2]
    word = prefix.rfind(" ")
    end = clauses[-1] if clauses else word if word > len(prefix) // 2 else len(prefix)
    prefix = prefix[:end].rstrip()
    while (bare := _DANGLES.sub("", prefix).rstrip()) and bare != prefix:
        prefix = bare
    return prefix


def _without_opener(sentence: str) -> str:
    rest = _UNSPACED_OPENER.sub("", _OPENER.sub("", sentence, count=1), count=1)
    return _capitalised(rest) if rest and rest != sentence else sentence


def _capitalised(sentence: str) -> str:
    """A plain word at the start gets its capital; a command or identifier stays as it is written."""
    return sentence[0].upper() + sentence[1:] if _PLAIN_START.match(sentence) else sentence


def _once_shorter(sentence: str, keep: re.Pattern[str] | None) -> str | None:
    """The sentence without its most dispensable stretch that holds nothing to keep; None where there is none."""
    for start, end, is_inside in _stretches(sentence):
        gone = sentence[start:end]
        matters = _limits(gone) if keep else _limits_beyond_reason(gone)
        if matters or (keep and keep.search(gone)) or not _is_balanced(gone):
            continue
        rest = _joined(sentence[:start], sentence[end:], sentence)
        if is_inside or _stands(rest, sentence):
            return rest
    lead = _LEAD.match(sentence)
    rest = sentence[lead.end() :] if lead else ""
    if keep is None and lead and len(rest) > MIN_REST and _may_lose(lead.group(), sentence):
        return _capitalised(rest)
    return None


def _may_lose(lead: str, sentence: str) -> bool:
    """Whether a sentence says the same without its beginning. A Japanese one ends with what it says."""
    if _limits(_CONCEDES.sub("", lead)) or not _is_balanced(lead):
        return False
    if _KANA.search(sentence):
        return not re.search(r"(?:ば|たら|なら|は|と)[、,]\s*$", lead)
    return bool(_DROPPABLE_LEAD.match(lead))


def _stretches(sentence: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether it stands inside) of what could go, the most dispensable first."""
    for pattern in (_BRACKETS, _DASHED):
        for match in _last(pattern, sentence):
            yield match.start(), match.end(), True
    for match in _last(_ASIDE, sentence):
        yield match.start(), match.end(), False
    if _KANA.search(sentence):
        return
    listed = _list_commas(sentence)
    for match in _last(_BREAK, sentence):
        if match.start() not in listed:
            yield match.start(), len(sentence), False
    for match in _last(_TAIL, sentence):
        yield match.start(), len(sentence), False
    for match in _last(_A_THAT, sentence):
        yield match.start("that") - 1, len(sentence), False


def _last(pattern: re.Pattern[str], sentence: str) -> list[re.Match[str]]:
    """What the pattern finds, from the end."""
    return list(pattern.finditer(sentence))[: -MAX_CUTS - 1 : -1]


def _list_commas(sentence: str) -> set[int]:
    """Where commas stand between the members of a list, which would be wrong with some of them missing."""
    found: set[int] = set()
    parts = sentence.split(", ")
    place, is_listed = len(parts[0]), False
    for n, part in enumerate(parts[1:], 2):
        words = part.split()
        has_and = "and" in words or "or" in words
        is_short = len(words) <= MAX_MEMBER_WORDS and not _ASIDE_WORD.match(part.removeprefix("and "))
        before_last = n < len(parts) and parts[n].startswith(("and ", "or "))
        is_member = is_short and (
            before_last or is_listed or (not _SUBORDINATE.match(part) and (has_and or n < len(parts)))
        )
        is_listed = is_member or (is_listed and has_and and words[:1] not in (["and"], ["or"]))
        if is_listed:
            found.add(place)
        is_listed = is_listed and not has_and
        place += 2 + len(part)
    return found


def _joined(before: str, after: str, sentence: str) -> str:
    """What stands around a gap, with the sentence's own end."""
    if after.strip(" .!?。！？"):
        are_words = before[-1:].isalnum() and after[:1].isalnum() and not _IS_UNSPACED.match(after)
        return f"{before.rstrip()}{' ' if are_words else ''}{after}".strip()
    stop = _STOPPED.search(sentence)
    return before.rstrip(" ,;:—–-，；、") + (stop.group() if stop else "")


def _stands(rest: str, sentence: str) -> bool:
    """Whether what is left can be a sentence: not too short, not ending in mid-air, not only a subordinate clause."""
    bare = rest.rstrip(" .!?。！？")
    if _DANGLES.search(bare) or not _is_balanced(bare):
        return False
    words = len(_IS_UNSPACED.findall(bare)) // 2 or bare.count(" ") + 1
    if words < 4 or bare.endswith(":"):
        return False
    return bool(_COMMA.search(bare)) or not _SUBORDINATE.match(bare) or not _COMMA.search(sentence)


def _is_balanced(text: str) -> bool:
    pairs = (("(", ")"), ("[", "]"), ("（", "）"), ("“", "”"), ("「", "」"))
    return all(text.count(a) == text.count(b) for a, b in pairs) and text.count("`") % 2 == text.count('"') % 2 == 0

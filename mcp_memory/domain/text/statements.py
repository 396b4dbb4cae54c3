"""Finds facts, decisions and dead ends that a text states outright, by the shape of its sentences.

Independent of models, stores and the speaker.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.segments import sentences_of, unquoted

LEAST_WORDS, MOST_WORDS = 3, 60  # of a sentence
LEAST_CHARACTERS, MOST_CHARACTERS = 8, 400

# "We have decided to use SQLite", "Let's go with the second design", "Decision: cents"
_DECISION = re.compile(
    r"\b(?:(?:we|i|team)(?:\s+(?:have|has|had|'ve|all|both|finally|then|also|now))*"
    r"\s+(?:decided|chose|agreed|opted|settled)\b|was decided\b|decided (?:to|on|against|not to)\b|decision (?:is|was)"
    r"|(?:we(?:'ll| will| are going to|'re going to)|let's|let us)\s+(?:use|go with|keep|drop|switch|stay)\b"
    r"|went with\b|settled on\b)|^decision:\s|决定|決定|决议",
    re.IGNORECASE,
)
# "Deploys must never happen on Fridays"
_RULE = re.compile(rf"\b(?:must(?:\s+not|n't)?|never|always)\b|{lexicon.unspaced('rules')}", re.IGNORECASE)
# "We now use uv for packages"
_USE = re.compile(r"\b(?:we|i)\s+(?:(?:now|currently|still|only|also)\s+)?use\b|我们用|我们使用|采用", re.IGNORECASE)
# "The staging server runs on db2", "Our API requires a key"
_STATE = re.compile(
    r"^(?:the|our|my|their|its?\s+own|each|every|all|both)?\s*[\w`'\"./@:#+-]+(?:\s+[\w`'\"./@:#+()-]+){0,7}?"
    r"\s+(?:is|are|uses?|runs on|requires?|needs?|depends on|lives in|belongs to|supports?|defaults to)\s+\S",
    re.IGNORECASE,
)
# "It is fast", "Nothing changed", "What we need"
_LEANING = re.compile(
    r"^(?:it|its|this|that|these|those|there|here|he|she|they|him|his|her|you|your|what|who|which|where|when|why|how|if"
    r"|but|so|because|and|or|then|also|which|another|such|one|some|other|others|not|nothing|something|everything)\b"
    r"|^(?:i'm|i am|that's|it's|there's|here's|what's|who's|let me)\b|^(?:这|那|它|他|她|但|所以|因为|如果)",
    re.IGNORECASE,
)
"""Openings of a sentence that makes no sense without the one before it, or states nothing."""
# "So we chose Redis" → "we chose Redis"
_CONNECTIVE = re.compile(r"^(?:so|and|but|then|also|because)[\s,]+", re.IGNORECASE)
_UNSAID = (*lexicon.QUESTION_SIGNS, *lexicon.COLONS, "{", ";")
"""Endings of questions, headings and lines of code."""
# "The cache would be too slow." → a guess
_GUESS = re.compile(rf"\b(?:{lexicon.HEDGES}|would|(?:may|could) be)\b|{lexicon.HEDGES_UNSPACED}", re.IGNORECASE)
# "We chose Redis, | because Memcached would lose data"
_REASON = re.compile(rf"\b(?:{lexicon.spaced('reasons')})\b|{lexicon.unspaced('reasons')}", re.IGNORECASE)
# "The test is failing.", "All checks are now green again."
_MOMENTARY = re.compile(
    r"^(?:\S+\s+){1,5}(?:is|are)\s+(?:(?:now|still|again|currently|all|already|not|just|about)\s+)*"
    r"(?:failing|passing|running|working|building|hanging|green|red|broken|done|ready|fixed|stuck|gone|up|down|fine|good"
    r"|ok(?:ay)?|correct|right|wrong|clear|clean|complete|finished|in progress|in place)"
    r"(?:\s+(?:now|again|too|as well|there|here))*[.!…]*$",
    re.IGNORECASE,
)
"""A passing state: "The test is failing." means nothing to a later reader."""
# "We have not yet | decided on a port"
_UNDECIDED = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.ABSENCES}|{lexicon.CONDITIONS}|yet|used to)\b|{lexicon.DENIALS_UNSPACED}",
    re.IGNORECASE,
)
"""Words before "decided" that deny or suspend a decision."""
# "The server used to be slow"; not "the token is used to sign"
_PAST_STATE = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bbeing )(?<!\bbeen )\bused to\b"
    r"|\b(?:before that|yesterday|formerly|previously|back then|at (?:the|that) time|in the past"
    r"|last (?:week|month|year))\b|昨天|曾经",
    re.IGNORECASE,
)
"""A past state that may no longer hold. "Is used to" states a purpose."""
# "You must send the key", "Ignore what was said", "The assistant must answer"
_INSTRUCTION = re.compile(
    r"\byou(?:['’](?:ll|re))?\s+(?:must|should|shall|need|have|ought|will|may|can|cannot|are|do|never|always|now)\b|"
    r"\b(?:ignore|disregard|please|instructions?|system prompts?)\b"
    r"|\b(?:previous|prior|earlier|above) (?:prompts?|rules?|messages?|commands?|directions?)\b"
    r"|\b(?:assistants?|ai|llms?|chatbots?|language models?) (?:must|should|shall|will|may|can|cannot|has to|have to"
    r"|needs?|always|never|(?:is|are) (?:now|to|required|allowed))\b|[你您](?:必须|应该|要|需要|不得)|忽略|无视|指令",
    re.IGNORECASE,
)
"""Demands that a text makes of its reader: neither facts nor decisions."""
# "We tried a pool of 40"
_TRIED = re.compile(rf"\b(?:{lexicon.spaced('tried')})\b|{lexicon.unspaced('tried')}", re.IGNORECASE)
# "We tried it, | but the server refused"
_TURN = re.compile(
    r"\b(?:but|however|yet|though|although|only to|which|still|and (?:it|that|this|they|got))\b|[;:—–]"
    r"|但|却|卻|可是|不过|不過|结果|結果|が、|けど|けれど|ものの|ところ",
    re.IGNORECASE,
)
"""The turn in a sentence from the attempt to its result."""
# "the server refused more", "it did not even start"
_FAILED = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|broke|broken|breaks|crash(?:es|ed)?|errors?|hangs|hung|timed out|times out|timeouts?"
    r"|deadlock(?:s|ed)?|worse|slower|refused|rejected|unable|impossible|nothing (?:changed|happened|worked|helped)"
    r"|no (?:effect|difference|luck|improvement)|too (?:slow|large|big|long|many|fragile|complicated|expensive))\b"
    r"|(?:\bnot|n['’]t) (?:\w+ )?(?:work|help|fix|solve|compile|build|start|run|pass|change|load|connect|match|apply"
    r"|scale|support|install|resolve|reproduce|improve|finish|respond|fit|possible|supported|enough|available)\b"
    rf"|{lexicon.unspaced('failed')}",
    re.IGNORECASE,
)
# "it never | failed"
_NOT_SO = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.ABSENCES}|without|zero|0) (?:\w+ ){{0,2}}$|{lexicon.DENIALS_UNSPACED}有?$",
    re.IGNORECASE,
)
"""Denials before "failed": nothing failed."""
# "Raising the timeout didn't help", "was a dead end", "Reverted the pool change"
_NOWHERE = re.compile(
    r"\b(?:(?P<verb>(?:did|does)(?: not|n['’]t) (?:\w+ )?(?:help|fix|solve|pan out|make (?:a|any) difference)\b"
    r"|did(?: not|n['’]t) (?:\w+ )?work\b(?! (?:on|at)\b))|(?:does not|doesn['’]t|won['’]t|will not) work,?"
    r" (?:because|since|as|due to)\b"
    r"|made no difference\b|had no effect\b|without success\b|to no avail\b|in vain\b|no luck (?:with|using)\b"
    r"|(?:was|were|proved) (?:unsuccessful|fruitless|futile)\b"
    r"|(?:a|another|the same) (?:\w+ )?(?:dead[ -]end|blind alley|red herring)\b"
    r"|(?:was|were|been|had to be) (?:reverted|rolled back|backed out|abandoned|ruled out)\b"
    r"|(?P<deed>(?:reverted|rolled back|backed out|abandoned|ruled out|gave up on)"
    r"(?= )(?! (?:it|this|that|them|these|those|to)\b(?: \w+)?[.,;!]?$))"
    r"|(?:the|this|our|my|first|second|third|last|other|another|every|both) (?:attempt|approach|workaround)(?:e?s)?"
    r"(?: (?!never\b|not\b)\S+){0,4}? failed\b)",
    re.IGNORECASE,
)
# "缓存方案行不通", "元に戻した", "das hat nichts gebracht"
_NOWHERE_ELSEWHERE = re.compile(
    rf"\b(?:{lexicon.spaced('dead_ends')})\b|{lexicon.unspaced('dead_ends')}", re.IGNORECASE
)
"""Dead ends: by its `verb`, unless a person is its subject; by our own `deed`; or in any case."""
# "we | did not fix the bug" is no dead end
_SOMEBODY = re.compile(r"\b(?:i|we|you|they) $", re.IGNORECASE)
# "We have | reverted the change"; not "the admin | reverted it"
_BY_US = re.compile(r"(?:^|\b(?:we|i|then|and) )(?:have |had )?$", re.IGNORECASE)
# "If the flag | did not help, restart"
_HYPOTHETICAL = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.CONDITIONS}|in case|should)\b|{lexicon.DENIALS_UNSPACED}"
    rf"|{lexicon.CONDITIONS_UNSPACED}",
    re.IGNORECASE,
)
"""Words before a dead end that deny it, or make it hypothetical."""
# "うまくいかなかったですか"
_ASKING = re.compile(r"(?:ですか|ますか|たか|吗|嗎|かもしれない|かもしれません|と思う|と思います)[。.]?$")
# "これは効果がなかった"
_LEANING_KANA = re.compile(r"^(?:これ|それ|あれ|この|その|あの|しかし|でも|だから|なぜ|もし|そこで)")


StatementKind: TypeAlias = Literal["fact", "decision", "episode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence that makes sense alone. An episode is a dead end: an attempt or idea that failed."""

    kind: StatementKind
    text: str


def statement(sentence: str) -> Statement | None:
    """Return the fact or decision that one sentence states outright.

    Such as "decided to …", "we use …", "X is …", "must …". Questions, guesses, quotations, code, past, undecided or
    momentary states, instructions to the reader, and sentences that depend on the one before state nothing.
    """
    if not _is_whole(sentence):
        return None
    own = unquoted(sentence)
    if decision := _DECISION.search(own):
        decided = _CONNECTIVE.sub("", sentence)
        is_open = _UNDECIDED.search(sentence, 0, decision.start()) or _LEANING.search(decided)
        stated = None if is_open else Statement(kind="decision", text=decided[0].upper() + decided[1:])
    else:
        is_fact = _RULE.search(own) or _USE.search(own) or _STATE.search(own)
        is_passing = is_momentary(sentence) or _LEANING.search(sentence) or _PAST_STATE.search(sentence)
        stated = Statement(kind="fact", text=sentence) if is_fact and not is_passing else None
    # Few sentences reach this check, which takes longest.
    return stated if stated and _is_vouched_for(sentence) else None


def dead_end(sentence: str) -> Statement | None:
    """Return the failed attempt that one sentence reports, an episode.

    "Tried … but …", "… did not help", "… was a dead end", "reverted …", "ruled out …", in Chinese and Japanese as well.
    It leaves out what `statement` does, except past states. A decision may give a dead end as its reason: both find it.
    """
    if not _is_whole(sentence):
        return None
    told = _CONNECTIVE.sub("", sentence)
    own = unquoted(told)
    is_leaning = _LEANING.search(told) or _LEANING_KANA.search(told) or _ASKING.search(told)
    if not comes_to_nothing(own) or is_leaning or not _is_vouched_for(sentence):
        return None
    return Statement(kind="episode", text=told[0].upper() + told[1:])


def comes_to_nothing(sentence: str) -> bool:
    """Return True for a failed attempt, and for an action without effect or undone, even where it leans on others."""
    return _failed_in_trying(sentence) or _led_nowhere(sentence)


def gives_reason(sentence: str) -> bool:
    """Return True where a sentence names a reason."""
    return bool(_REASON.search(sentence))


def finds_out(sentence: str) -> bool:
    """Return True where a sentence says what was found out."""
    return bool(_FINDING.search(sentence))


def tells_of_trouble(sentence: str) -> bool:
    """Return True where a sentence says that something is wrong."""
    return bool(_WRONG.search(sentence))


def tells_its_reader(sentence: str) -> bool:
    """Return True where a sentence tells its reader what to do: words of a page, valid only in place."""
    return bool(_INSTRUCTION.search(sentence))


def is_momentary(sentence: str) -> bool:
    """Return True where a sentence describes a passing state: "The test is failing"."""
    return bool(_MOMENTARY.search(sentence))


def _is_whole(sentence: str) -> bool:
    """Return True for a sentence of some length that is no question."""
    words = len(sentence.split())
    fits = LEAST_CHARACTERS <= len(sentence) <= MOST_CHARACTERS and words <= MOST_WORDS
    return fits and (words >= LEAST_WORDS or not sentence.isascii()) and not sentence.endswith(_UNSAID)


def _is_vouched_for(sentence: str) -> bool:
    """Return True where a sentence neither guesses nor tells its reader what to do; a reason may guess."""
    return not _GUESS.search(_REASON.split(sentence, maxsplit=1)[0]) and not tells_its_reader(sentence)


def _failed_in_trying(sentence: str) -> bool:
    """Return True for an attempt, a turn, and after it a failure that is not denied."""
    tried = _TRIED.search(sentence)
    turn = _TURN.search(sentence, tried.end()) if tried else None
    if not tried or not turn or _HYPOTHETICAL.search(sentence, 0, tried.start()):
        return False
    failures = _FAILED.finditer(sentence, turn.start())
    return any(not _NOT_SO.search(sentence[max(0, each.start() - 40) : each.start()]) for each in failures)


def _led_nowhere(sentence: str) -> bool:
    """Return True for an action without effect, or one that was undone."""
    elsewhere = _NOWHERE_ELSEWHERE.search(sentence)
    ends = [*_NOWHERE.finditer(sentence), *([elsewhere] if elsewhere else [])]
    return any(_is_nowhere(each, sentence[: each.start()]) for each in ends)


def _is_nowhere(end: re.Match[str], before: str) -> bool:
    if _HYPOTHETICAL.search(before):
        return False
    said = end.groupdict()
    if said.get("verb"):
        return bool(before) and not _SOMEBODY.search(before)
    return not said.get("deed") or bool(_BY_US.search(before))


MAX_MESSAGE = 20_000
"""Characters read of a message."""
_DECIDED, _LED_NOWHERE, _LEFT_TO_DO, _FOUND_OUT, _STATED, _NAMES_SOMEBODY = 3.0, 3.0, 2.0, 2.0, 1.0, 0.6
"""The worth of each shape."""

# "Next step: add the index", "The export still needs a lock"
_OPEN = re.compile(
    rf"^(?:{lexicon.spaced('open_labels')})\b[^.:]{{0,40}}:|\b(?:{lexicon.spaced('open_steps')})\b"
    rf"|{lexicon.unspaced('open_steps')}",
    re.IGNORECASE,
)
# "It turned out that the cache drops rows"
_FINDING = re.compile(rf"\b(?:{lexicon.spaced('findings')})|{lexicon.unspaced('findings')}", re.IGNORECASE)
# "The build fails", "la mémoire manque"
_WRONG = re.compile(rf"\b(?:{lexicon.spaced('wrong')})\b|{lexicon.unspaced('wrong')}", re.IGNORECASE)
# "According to the log, | Maria Novak wrote it"
_PERSON = re.compile(r"(?<=[^\s.!?:] )[A-Z][a-zà-ÿ]{1,20} [A-Z][a-zà-ÿ]{1,20}\b")
# "Let me look at the tests", "I'll read the file"
_ANNOUNCEMENT = re.compile(rf"(?:(?:now|first|next|so),? )?(?:{lexicon.spaced('announcements')}) ", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A sentence and its worth, in [0.6, 3]. A dead end is an attempt or idea that failed."""

    text: str
    worth: float
    is_dead_end: bool = False


def telling(text: str) -> list[Telling]:
    """Return the sentences worth keeping, in order, without questions, code and announcements of the next action."""
    told: list[Telling] = []
    for sentence in sentences_of(text[:MAX_MESSAGE]):
        if _may_be_told(sentence):
            stated = dead_end(sentence) or statement(sentence)
            if worth := _shape(sentence, stated.kind if stated else None):
                is_dead_end = stated is not None and stated.kind == "episode"
                told.append(Telling(text=sentence, worth=worth, is_dead_end=is_dead_end))
    return told


def _may_be_told(sentence: str) -> bool:
    is_open = sentence.endswith(lexicon.QUESTION_SIGNS + lexicon.COLONS)
    return len(sentence) <= MOST_CHARACTERS and not is_open and not _ANNOUNCEMENT.match(sentence)


def _shape(sentence: str, kind: StatementKind | None) -> float:
    if kind in ("decision", "episode"):
        return _DECIDED if kind == "decision" else _LED_NOWHERE
    if _OPEN.search(sentence):
        return _LEFT_TO_DO
    if _FINDING.search(sentence):
        return _FOUND_OUT
    return _STATED if kind else _NAMES_SOMEBODY if _PERSON.search(sentence) else 0.0

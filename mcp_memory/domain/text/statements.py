"""Tells by its words what a sentence is about: a decision, a dead end, a finding, trouble, something left to do.

Independent of models, stores and the speaker.
"""

import re
from dataclasses import dataclass

from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.segments import sentences_of, unquoted

MAX_MESSAGE = 20_000
"""Characters read of a message."""
MOST_CHARACTERS = 400
_DECIDED, _LED_NOWHERE, _LEFT_TO_DO, _FOUND_OUT, _NAMES_SOMEBODY = 3.0, 3.0, 2.0, 2.0, 0.6
"""The worth of each shape."""

# "We have decided to use SQLite", "Let's go with the second design", "Decision: cents"
_DECISION = re.compile(
    r"\b(?:(?:we|i|team)(?:\s+(?:have|has|had|'ve|all|both|finally|then|also|now))*"
    r"\s+(?:decided|chose|agreed|opted|settled)\b|was decided\b|decided (?:to|on|against|not to)\b|decision (?:is|was)"
    r"|(?:we(?:'ll| will| are going to|'re going to)|let's|let us)\s+"
    r"(?:use(?! (?:the |a )?[`'\"]?[\w-]+[`'\"]? (?:command|tool)\b)|go with|keep|drop|switch|stay)\b"
    r"|went with\b|settled on\b)|^decision:\s|决定|決定|决议",
    re.IGNORECASE,
)
# "We have not yet | decided on a port"
_UNDECIDED = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.ABSENCES}|{lexicon.CONDITIONS}|yet|used to)\b|{lexicon.DENIALS_UNSPACED}",
    re.IGNORECASE,
)
"""Words before "decided" that deny or suspend a decision."""
# "If it fails, restart" constrains nothing
CONDITION = re.compile(
    rf"^(?:{lexicon.CONDITIONS}|when|whenever|in case|should)\b|^(?:{lexicon.CONDITIONS_UNSPACED}|若)", re.IGNORECASE
)
# "but it still fails", "it was not the cause", "we dropped it", "made it worse", "尝试重启失败"
_DEAD_END = re.compile(
    r"\b(?:tried|attempted|attempt(?:s|ing)? to)\b.{0,200}?\b(?:but|did ?n[o'’]t|failed|no luck|still)\b"
    r"|\b(?:did not|didn['’]t|does not|doesn['’]t|do not|don['’]t|won['’]t) (?:really )?(?:work|help|solve|fix)\b"
    r"|\bbut\b.{0,80}?\bstill (?:fail|appear|happen|occur|crash|leak|there|slow|broken|the same|wrong|hang)"
    r"|\bfailed because\b|\breverted\b|\brolled (?:\w+ ){0,3}back\b|\bbacked (?:\w+ ){0,3}out\b|\bdead end\b"
    r"|\bgave up\b|\babandoned\b|\bruled out\b|\bmade (?:it|things) worse\b|\bred herring\b|\bno improvement\b"
    r"|\b(?:isn['’]t|wasn['’]t|is not|was not|not) (?:it\b(?! \w)|the (?:root )?(?:cause|reason|problem|culprit)\b)"
    r"|\bturned out (?:to be )?(?:wrong|useless)\b|\b(?:i|we) (?:dropped|discarded) (?:it|that)\b"
    rf"|(?:{lexicon.unspaced('tried')}).{{0,40}}(?:但|没|{lexicon.unspaced('failed')})|没用|无效|撤销了|失敗し|取り消し"
    rf"|\b(?:{lexicon.spaced('dead_ends')})\b|{lexicon.unspaced('dead_ends')}",
    re.IGNORECASE,
)
# "so it might be that this version | doesn't work": a guess, not a failed attempt
_SUPPOSED = re.compile(rf"(?:\b(?:{lexicon.HEDGES})\b|{lexicon.HEDGES_UNSPACED})[^.,;:]{{0,60}}\Z", re.IGNORECASE)
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
    shaped = ((each, _shape(each)) for each in sentences_of(text[:MAX_MESSAGE]) if _may_be_told(each))
    return [Telling(text=each, worth=worth, is_dead_end=comes_to_nothing(each)) for each, worth in shaped if worth]


def decides(sentence: str) -> bool:
    """Return True where a sentence states a choice; one that is quoted, denied or asked for is none."""
    found = _DECISION.search(unquoted(sentence))
    if not found or sentence.endswith(lexicon.QUESTION_SIGNS):
        return False
    return not _UNDECIDED.search(sentence, 0, found.start())


def comes_to_nothing(sentence: str) -> bool:
    """Return True for a failed attempt, and for an action without effect or undone; a condition or guess is none."""
    told = unquoted(sentence)
    found = _DEAD_END.search(told)
    return bool(found) and not CONDITION.match(sentence) and not _SUPPOSED.search(told, 0, found.start())


def finds_out(sentence: str) -> bool:
    """Return True where a sentence says what was found out."""
    return bool(_FINDING.search(sentence))


def tells_of_trouble(sentence: str) -> bool:
    """Return True where a sentence says that something is wrong."""
    return bool(_WRONG.search(sentence))


def tells_its_reader(sentence: str) -> bool:
    """Return True where a sentence tells its reader what to do: words of a page, valid only in place."""
    return bool(_INSTRUCTION.search(sentence))


def _may_be_told(sentence: str) -> bool:
    is_open = sentence.endswith(lexicon.QUESTION_SIGNS + lexicon.COLONS)
    return len(sentence) <= MOST_CHARACTERS and not is_open and not _ANNOUNCEMENT.match(sentence)


def _shape(sentence: str) -> float:
    if comes_to_nothing(sentence):
        return _LED_NOWHERE
    if decides(sentence):
        return _DECIDED
    if _OPEN.search(sentence):
        return _LEFT_TO_DO
    if finds_out(sentence):
        return _FOUND_OUT
    return _NAMES_SOMEBODY if _PERSON.search(sentence) else 0.0

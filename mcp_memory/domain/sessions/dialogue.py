"""Reads a conversation without tools: who speaks, what the user asks for, and how much each message tells.

How much a message tells is read from its words alone, in any language: rare words, names and numbers count; words that
were just said, and questions, count less. So greetings and reactions come last. Independent of blocks and passes.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import log as logarithm

from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS, Entry, Pause
from mcp_memory.domain.sessions.summary import is_assent
from mcp_memory.domain.text.lexicon import QUESTION_SIGNS, STOP_WORDS
from mcp_memory.domain.text.segments import segments_of
from mcp_memory.domain.text.words import AROUND_WORDS, text_stems

ECHO, FIRST, ASKS, NAMES, ANSWERS, BEST = 0.7, 1.3, 0.3, 1.6, 1.2, 0.5
"""Factors of a word that was just said, and of one that is said for the first time; of a sentence that asks, and of one
with names or numbers; of a message after a question. The last is the weight of a message's best sentence."""
JUST_SAID = 2
"""Messages before one whose words it may echo."""
SPOKEN_TOKENS = 3
"""Tokens of saying who spoke."""
LONGER, LEAST_ANSWER = 3, 60
"""An answer this many times as long as the user's words, and of this many tokens at least, was asked for."""
NAMED_SHARE, MOST_PEOPLE = 0.8, 20
# "Caroline: I went there yesterday." → "Caroline"
_NAMED = re.compile(r"(?P<name>[^\W\d_][^\n:]{0,30}): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A message of a conversation. `worth` is 0 or more, higher for more telling ones.

    `is_asked` is True for the user's instructions, and for requests that were answered at length. `question` is the
    last sentence of the message before, where it asks.
    """

    entry: Entry
    who: str
    text: str
    worth: float
    is_asked: bool = False
    question: str = ""


def spoken(entries: Sequence[Entry], pause: Pause = bool) -> list[Spoken]:
    """Read messages of users and assistants that follow each other; `pause` is called for each.

    Where several people speak in the user's role, by `name` or by "Caroline: …", nobody's words are the user's.
    """
    people = _people(entries)
    names = [name if (name := _name(entry)) in people else "" for entry in entries]
    texts = [
        _NAMED.sub("", entry.text, count=1) if name and not entry.speaker else entry.text
        for entry, name in zip(entries, names, strict=True)
    ]
    sentences = [_sentences(text, pause) for text in texts]
    found: list[Spoken] = []
    question, is_answer = "", False
    for place, (entry, worth) in enumerate(zip(entries, _worths(entries, sentences), strict=True)):
        own, answer = sentences[place], entries[place + 1] if place + 1 < len(entries) else None
        found.append(
            Spoken(
                entry=entry,
                who=_shown_name(names[place] or entry.speaker or "") or entry.role,
                text=texts[place],
                worth=worth * (ANSWERS if is_answer else 1.0),
                is_asked=len(people) < 2 and entry.is_users and _is_asked(entry, answer),
                question=question,
            )
        )
        question = own[-1] if own and own[-1].endswith(QUESTION_SIGNS) else ""
        is_answer = any(sentence.endswith(QUESTION_SIGNS) for sentence in own)
    return found


def _sentences(text: str, pause: Pause) -> list[str]:
    pause()
    return [segment.text for segment in segments_of(text)]


def _people(entries: Sequence[Entry]) -> frozenset[str]:
    """Return the names of those who speak in the user's role; none where they are not told apart."""
    names = Counter(name for entry in entries if entry.role == "user" and (name := _name(entry)))
    is_told = names.total() >= NAMED_SHARE * sum(entry.role == "user" for entry in entries)
    return frozenset(names) if is_told and len(names) <= MOST_PEOPLE else frozenset()


def _name(entry: Entry) -> str:
    named = None if entry.speaker else _NAMED.match(entry.text)
    return named["name"] if named else entry.speaker or ""


def _shown_name(name: str) -> str:
    """Return a name on one line; one that begins as a quotation would make its words the user's."""
    return " ".join(name.split()).lstrip("> ")


def _is_asked(entry: Entry, answer: Entry | None) -> bool:
    """Return True for short words that are no mere assent, and for what the assistant answered at length."""
    is_served = answer and answer.role == "assistant" and answer.tokens >= max(LONGER * entry.tokens, LEAST_ANSWER)
    return bool(is_served) or (entry.tokens <= INSTRUCTION_TOKENS and not is_assent(entry.text))


def _worths(entries: Sequence[Entry], sentences: Sequence[Sequence[str]]) -> list[float]:
    """Return for each message what its sentences tell for their tokens: all of them, and half as much the best."""
    words = [[frozenset(text_stems(sentence)) - STOP_WORDS for sentence in said] for said in sentences]
    own = [frozenset(chain.from_iterable(said)) for said in words]
    rarity = {word: logarithm(len(entries) / count) for word, count in Counter(chain.from_iterable(own)).items()}
    met = set[str]()
    found: list[float] = []
    for place, said in enumerate(sentences):
        just_said = frozenset(chain.from_iterable(own[max(place - JUST_SAID, 0) : place]))
        values = [
            sum(rarity[word] * (ECHO if word in just_said else 1.0 if word in met else FIRST) for word in terms)
            * (ASKS if sentence.endswith(QUESTION_SIGNS) else 1.0)
            * (NAMES if _names_something(sentence) else 1.0)
            for sentence, terms in zip(said, words[place], strict=True)
        ]
        whole = max(sum(map(len, said)), 1)
        costs = [SPOKEN_TOKENS + entries[place].tokens * len(sentence) / whole for sentence in said]
        best = max((value / cost for value, cost in zip(values, costs, strict=True)), default=0.0)
        found.append(sum(values) / (sum(costs) or 1.0) + BEST * best)
        met |= own[place]
    return found


def _names_something(sentence: str) -> bool:
    """Return True for a name or a number behind the first word; "I" is none."""
    bare = (word.strip(AROUND_WORDS).partition("'")[0] for word in sentence.split()[1:])
    return any((len(word) > 1 and word[:1].isupper()) or word[:1].isdigit() for word in bare)

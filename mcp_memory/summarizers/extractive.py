"""Makes summaries without a model: ranks a span's own sentences by our embeddings and sorts them by shape.

Nothing is reworded, at most cut short. The first selection uses the sentences alone, so that a span of any length
needs only a few hundred embeddings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS, Entry
from mcp_memory.domain.sessions.summary import fitted, instructions_in, structured
from mcp_memory.domain.text.excerpts import Room
from mcp_memory.domain.text.lexicon import DENIALS, LIMITS_UNSPACED
from mcp_memory.domain.text.segments import Segment, segments_of
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.text import Summarized, SummaryRequest, TokenCounter
from mcp_memory.summarizers.sentences import Utterance, said_in, shape
from mcp_memory.summarizers.shapes import changes_direction, section_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcp_memory.ports.text import Embedder

LEAST_SIMILAR = 0.3
"""Least similarity: below it, with the built-in embedder, two sentences are unrelated."""
SAME = 0.85  # from this cosine on two sentences repeat each other
PAGERANK_DAMPING, PAGERANK_TOLERANCE, PAGERANK_STEPS = 0.85, 1e-6, 100  # of PageRank
# e.g. "app.py", "5432", "HTTPServer", "`flag`", "not"
_EXACT = re.compile(
    r"[^\s,;()\"'“”]{0,200}[\d_/\\@][^\s,;()\"'“”]*|\b\w+\.\w+\b|\b[A-Z][\w-]*[A-Z]\w*|`[^`]+`"
    rf"|\b(?:{DENIALS}|no|without|before|after|up|down|on|off|true|false|failed|passed)\b|{LIMITS_UNSPACED}"
)
"""Parts that distinguish otherwise similar sentences: values, names, denials."""


def by_meaning(texts: Sequence[str], embedder: Embedder) -> NDArray[np.float32]:
    """Return the texts' cosines, [n, n], 0 on the diagonal. Raises StoreUnavailable where the embedder cannot run."""
    import numpy as np

    rows = np.stack([np.asarray(windows).mean(0) for windows in embedder.embed_many(texts)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return _without_itself(rows @ rows.T)


def by_words(words: Sequence[Set[str]]) -> NDArray[np.float32]:
    """Return the shares of common words, |a & b| / sqrt(|a| |b|), [n, n], 0 on the diagonal."""
    import numpy as np

    known = {word: n for n, word in enumerate(sorted(set[str]().union(*words)))}
    rows = np.zeros((len(words), max(len(known), 1)), np.float32)
    for row, each in zip(rows, words, strict=True):
        row[[known[word] for word in each]] = 1 / max(len(each), 1) ** 0.5
    return _without_itself(rows @ rows.T)


def ranks(similar: NDArray[np.float32], worth: Sequence[float]) -> NDArray[np.float64]:
    """Return each sentence's rank, from the similar sentences weighted by their own worth; the mean is 1.

    Personalised PageRank (Haveliwala, WWW 2002) over the graph of LexRank (Erkan and Radev, JAIR 2004). `worth` is
    positive.
    """
    import networkx as nx
    import numpy as np

    # A near-identical sentence is a repetition and no support.
    edges = np.where((similar >= LEAST_SIMILAR) & (similar < SAME), similar, 0).astype(np.float64)
    graph = nx.from_numpy_array(edges)
    steps = nx.google_matrix(graph, alpha=PAGERANK_DAMPING, personalization=dict(enumerate(worth)))
    rank = np.full(len(worth), 1 / len(worth))
    for _ in range(PAGERANK_STEPS):
        before, rank = rank, rank @ steps
        if np.abs(rank - before).sum() < PAGERANK_TOLERANCE:
            break
    return rank * len(worth)


def says_nothing_new(text: str, others: Sequence[str], cosines: Sequence[float], most_alike: int) -> bool:
    """Return True where another text contains this one's content, or this would be one of `most_alike` similar ones.

    A text contains the content of another if it is near and holds each of its values, names and denials.
    """
    near = [other for other, cosine in zip(others, cosines, strict=True) if cosine >= SAME]
    exact = _exact(text)
    return len(near) + 1 >= most_alike or any(exact <= _exact(other) for other in near)


def _exact(text: str) -> frozenset[str]:
    return frozenset(found.strip(".:`").casefold() for found in _EXACT.findall(text))


def _without_itself(similar: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    np.fill_diagonal(similar, 0)
    return similar


MOST_READ = 1_500
"""Most sentences to sort by their shape, about a fifth of a millisecond each."""
MOST_RANKED = 250
"""Most sentences to embed, about two milliseconds each."""
SUMMARY_LINE_TOKENS = 60
MATERIAL_CHARACTERS = 2_000
"""Characters read of the text that becomes a line."""
STATE_TOKENS = 80
LEAST_PROMISE = 1.0
LEAST_WORTH = 0.1
"""The worth of a sentence whose own worth is lower."""
TITLES_TOKENS, BULLET_TOKENS = 30, 3  # of all section titles, and of each "- "

OFTEN = 3
"""Lines that differ only in their values: this many are a list, and none of them is the point."""
_TOLD_OFTEN: frozenset[Section] = frozenset({"facts", "completed", "in_progress", "next_steps"})

_WEIGHT: Mapping[Section, float] = {
    "constraints": 4.0, "decisions": 3.0, "dead_ends": 2.5, "next_steps": 2.5, "in_progress": 2.0, "completed": 1.2,
    "facts": 1.0,
}  # fmt: skip
"""The priority of a sentence by its section."""
_SHARE: Mapping[Section, float] = {
    "constraints": 0.25, "decisions": 0.35, "dead_ends": 0.25, "next_steps": 0.2, "in_progress": 0.1, "completed": 0.3,
    "facts": 0.35,
}  # fmt: skip
"""The largest share of the tokens for each section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A sentence, its section, and its line there once it is chosen."""

    said: Utterance
    section: Section
    line: str = ""


class ExtractiveSummarizer:
    """Chooses sentences. Deterministic, and thread-safe as far as embedder and counter are."""

    name = "extractive"

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        self._embedder = embedder
        self._counter = counter

    def summarize(self, request: SummaryRequest) -> Summarized:
        """See `Summarizer`. Never raises: without the embedder, sentences are compared by their words."""
        found = _sorted_out(_worth_reading(said_in(request.entries)))
        lines: dict[Section, tuple[str, ...]] = {}
        if goal := self._goal(request):
            lines["goal"] = (goal,)
        if state := self._state(found, min(STATE_TOKENS, request.max_tokens // 5)):
            lines["state"] = (state,)
        left = request.max_tokens - TITLES_TOKENS - sum(self._count(line) for (line,) in lines.values())
        candidates = _most_promising(found)
        similar, note = self._similar(candidates)
        taken = self._taken(candidates, similar, left, " ".join(line for (line,) in lines.values()))
        lines |= _by_section(taken)
        summary = fitted(structured(lines), request.max_tokens, self._count)
        return Summarized(summary=summary, by=self.name, note=note)

    def _count(self, text: str) -> int:
        return self._counter.count(text)

    def _goal(self, request: SummaryRequest) -> str:
        """Return the user's last stated goal.

        The first wish, or one that changed the direction.
        """
        wishes = [wish for entry in request.entries for wish in _wishes(entry)]
        turned = [wish for wish in wishes if changes_direction(wish)][-1:]
        earlier = request.earlier.of("goal") if request.earlier else ()
        if earlier and not turned:
            return earlier[-1]
        goal = next(iter(turned or wishes), "")[:MATERIAL_CHARACTERS]
        most = min(SUMMARY_LINE_TOKENS, request.max_tokens // 5)
        return self._begun([segment.text for segment in segments_of(goal)], most)

    def _state(self, found: Sequence[_Candidate], max_tokens: int) -> str:
        """Return the state as the assistant's last message reports it, else any of its sentences."""
        told = [each for each in found if each.said.speaker == "assistant"]
        last = [each for each in told if each.said.entry == told[-1].said.entry]
        now = [each for each in last if each.section == "in_progress"]
        stands = [each for each in last if each.section not in ("in_progress", "next_steps")] or now or last[:1]
        return self._begun([each.said.text for each in stands], max_tokens)

    def _begun(self, sentences: Sequence[str], max_tokens: int) -> str:
        """Return the first sentences in one line, as many as fit; the very first is cut if needed."""
        line = ""
        for sentence in sentences:
            longer = f"{line} {sentence}".strip()
            if line and self._count(longer) > max_tokens:
                break
            line = longer
        return self._line(line, max_tokens) if line else ""

    def _line(self, sentence: str, max_tokens: int = SUMMARY_LINE_TOKENS) -> str:
        segment, room = Segment(text=sentence), Room(self._counter.count, self._counter.truncate)
        return room.whole(segment, max_tokens) or room.cut(segment, max_tokens)

    def _similar(self, candidates: Sequence[_Candidate]) -> tuple[NDArray[np.float32], str]:
        if candidates:
            try:
                return by_meaning([each.said.text for each in candidates], self._embedder), ""
            except StoreUnavailable as unavailable:
                return by_words([each.said.words for each in candidates]), f"compared by words: {unavailable}"
        return by_words([]), ""

    def _taken(
        self, candidates: Sequence[_Candidate], similar: NDArray[np.float32], tokens: int, known: str
    ) -> list[_Candidate]:
        """Return the best candidates that fit, in order, each with new content."""
        if not candidates:
            return []
        rank = ranks(similar, [max(each.said.worth, LEAST_WORTH) for each in candidates])
        scored = sorted(
            ((float(rank[n]) * _promise(each), n) for n, each in enumerate(candidates)), key=itemgetter(0), reverse=True
        )
        left, spent = tokens, Counter[Section]()
        taken: dict[int, _Candidate] = {}
        for _, n in scored:
            each = candidates[n]
            line = self._line(each.said.text)
            cost = self._count(line) + BULLET_TOKENS
            if cost > left or spent[each.section] + cost > _SHARE[each.section] * tokens:
                continue
            others = [candidates[k].said.text for k in taken]
            most_alike = OFTEN if each.section in _TOLD_OFTEN else MOST_RANKED
            if says_nothing_new(each.said.text, others, [similar[n, k] for k in taken], most_alike) or _is_told(
                each.section, line, known
            ):
                continue
            taken[n] = replace(each, line=line)
            left -= cost
            spent[each.section] += cost
        return [taken[n] for n in sorted(taken)]


def _wishes(entry: Entry) -> tuple[str, ...]:
    """Return the user's requests in an entry, including those in a block of turns."""
    is_long = entry.is_users and entry.tokens > INSTRUCTION_TOKENS
    return (entry.summary or entry.text,) if is_long else instructions_in((entry,))


def _worth_reading(found: Sequence[Utterance]) -> list[Utterance]:
    """Return the sentences to sort, in order: the user's and the last ones, then the best."""
    best = sorted(found, key=lambda said: (said.speaker != "user" and not said.is_last, -said.worth, -said.place))
    return sorted(best[:MOST_READ], key=lambda said: said.place)


def _sorted_out(found: Iterable[Utterance]) -> list[_Candidate]:
    """Return each sentence in its section; of repeated steps that differ only in numbers, the last."""
    sorted_out = [_Candidate(said=said, section=section) for said in found if (section := section_of(said)) is not None]
    last = {shape(each.said.text): each.said.place for each in sorted_out}
    often = Counter(shape(each.said.text) for each in sorted_out)
    return [
        each
        for each in sorted_out
        if each.section not in _TOLD_OFTEN
        or often[shape(each.said.text)] < OFTEN
        or last[shape(each.said.text)] == each.said.place
    ]


def _most_promising(found: Iterable[_Candidate]) -> list[_Candidate]:
    """Return the candidates to rank, in order: the best by their own worth, without facts of little worth."""
    candidates = [each for each in found if each.said.worth + _WEIGHT[each.section] > LEAST_PROMISE]
    best = sorted(candidates, key=lambda each: (-_promise(each), -each.said.place))[:MOST_RANKED]
    return sorted(best, key=lambda each: each.said.place)


def _is_told(section: Section, line: str, known: str) -> bool:
    """Return True where goal or state contain the line; demands, choices and plans are listed anyway."""
    return section in ("facts", "completed", "in_progress") and line in known


def _promise(candidate: _Candidate) -> float:
    return _WEIGHT[candidate.section] * max(candidate.said.worth, LEAST_WORTH)


def _by_section(taken: Iterable[_Candidate]) -> dict[Section, tuple[str, ...]]:
    lines: dict[Section, list[str]] = {}
    for each in taken:
        lines.setdefault(each.section, []).append(each.line)
    return {section: tuple(own) for section, own in lines.items()}

"""Which sentences the others speak of too: PageRank over a graph of what is similar. Knows no sections and no tokens.

numpy and networkx are imported when the first span is ranked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcp_memory.ports.text import Embedder

LEAST_SIMILAR = 0.3
"""Below, with the built-in embedder, two sentences have nothing to do with each other."""
SAME = 0.85
DAMPING, TOLERANCE, MOST_STEPS = 0.85, 1e-6, 100
_EXACT = re.compile(
    r"[^\s,;()\"'“”]{0,200}[\d_/\\@][^\s,;()\"'“”]*|\b\w+\.\w+\b|\b[A-Z][\w-]*[A-Z]\w*|`[^`]+`"
    r"|\b(?:not|no|never|without|n['’]t|before|after|up|down|on|off|true|false|failed|passed)\b|[不没未非]|ない|ません"
)
"""What makes two sentences differ that are alike otherwise: values, names, denials."""


def by_meaning(texts: Sequence[str], embedder: Embedder) -> NDArray[np.float32]:
    """Cosines of the texts, [n, n], 0 on the diagonal. Raises StoreUnavailable where the embedder cannot run."""
    import numpy as np

    rows = np.stack([np.asarray(windows).mean(0) for windows in embedder.embed_many(texts)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return _without_itself(rows @ rows.T)


def by_words(words: Sequence[Set[str]]) -> NDArray[np.float32]:
    """Shares of common words, |a & b| / sqrt(|a| |b|), [n, n], 0 on the diagonal."""
    import numpy as np

    known = {word: n for n, word in enumerate(sorted(set[str]().union(*words)))}
    rows = np.zeros((len(words), max(len(known), 1)), np.float32)
    for row, each in zip(rows, words, strict=True):
        row[[known[word] for word in each]] = 1 / max(len(each), 1) ** 0.5
    return _without_itself(rows @ rows.T)


def ranks(similar: NDArray[np.float32], worth: Sequence[float]) -> NDArray[np.float64]:
    """For each sentence how much the others, weighed by their own worth, lead to it; the mean is 1.

    Personalised PageRank (Haveliwala, WWW 2002) over the graph of LexRank (Erkan and Radev, JAIR 2004). `worth` is
    positive.
    """
    import networkx as nx
    import numpy as np

    # What says nearly the same repeats a sentence, and does not speak for it.
    edges = np.where((similar >= LEAST_SIMILAR) & (similar < SAME), similar, 0).astype(np.float64)
    graph = nx.from_numpy_array(edges)
    steps = nx.google_matrix(graph, alpha=DAMPING, personalization=dict(enumerate(worth)))
    rank = np.full(len(worth), 1 / len(worth))
    for _ in range(MOST_STEPS):
        before, rank = rank, rank @ steps
        if np.abs(rank - before).sum() < TOLERANCE:
            break
    return rank * len(worth)


def says_nothing_new(text: str, others: Sequence[str], cosines: Sequence[float], most_alike: int) -> bool:
    """True where one of the others says as much, or this would be one of `most_alike` that say the like.

    One that says as much is near, and holds every value, name and denial of the text.
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

"""What fits into a budget: exactly as many results as their tokens allow, counted only where that matters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.token_factor import CountedTokens
from mcp_memory.services.retrieval.result_rendering import Result, fit, tokens_of


class Counter:
    """Takes three bytes for a token, and remembers what it was asked."""

    name = "by three"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> CountedTokens:
        self.counted.append(text)
        return CountedTokens(-(-len(text.encode("utf-8", "surrogatepass")) // 3))

    def truncate(self, text: str, max_tokens: int) -> str:
        return text.encode()[: 3 * max_tokens].decode("utf-8", "ignore")


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(20, 300))
def test_as_many_fit_as_their_tokens_say(texts: list[str], budget: int) -> None:
    """Bytes alone leave nothing out that fits, and let nothing in that does not."""
    results = [Result(data={"id": f"r{place}", "text": text}, head="") for place, text in enumerate(texts)]
    kept = fit(results, budget, Counter())
    spent = [tokens_of(each.data, Counter()) + 1 for each in results]
    fitting = [place for place in range(len(spent)) if sum(spent[: place + 1]) <= budget]
    assert list(kept) == results[: len(fitting)] or (not fitting and len(kept) == 1)


def test_what_is_small_beside_its_budget_is_not_counted() -> None:
    """A list of records loads no vocabulary, which takes longer than the list itself."""
    counter = Counter()
    results = [Result(data={"id": f"r{place}", "text": "The boiler is in the cellar."}, head="") for place in range(50)]
    assert len(fit(results, 60_000, counter)) == 50
    assert counter.counted == []

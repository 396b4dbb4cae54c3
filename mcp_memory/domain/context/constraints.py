"""When a constraint (a censor) applies."""

from collections.abc import Collection, Sequence

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.retrieval.relevance import coverage
from mcp_memory.domain.text.words import query_terms

TRIGGERED = 0.5
"""A trigger is met where so much of its own words stands in the query, or of the query's in it."""

BEGINNING = 4
"""Words that begin otherwise are not inflections of one another."""


def is_active(censor: Record, terms: Sequence[str], domains: Collection[str]) -> bool:
    """True where it names no domain, one of the active ones, or something that the query speaks of.

    Without a query and an active domain nothing tells what does not apply, so that everything does.
    """
    domain = censor.details.get("domain")
    if not domain or not (terms or domains) or domain in domains:
        return True
    trigger = censor.details.get("trigger")
    said = trigger if isinstance(trigger, str) else censor.text
    if not any(term[:BEGINNING] in said.lower() for term in terms):
        return False  # Taking apart the triggers of a hundred constraints takes longer than all else of them.
    return coverage(terms, said) >= TRIGGERED or coverage(query_terms(said), " ".join(terms)) >= TRIGGERED

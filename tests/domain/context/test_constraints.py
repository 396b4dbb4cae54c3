"""When a constraint applies."""

from collections.abc import Callable

import pytest

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.retrieval.queries import is_active
from mcp_memory.domain.text.words import query_terms

MakeRecord = Callable[..., Record]


@pytest.mark.parametrize(
    ("details", "query", "domains", "applies"),
    [
        ({}, "how do we deploy?", (), True),
        ({"domain": "billing"}, "", (), True),
        ({"domain": "billing"}, "how do we deploy?", (), False),
        ({"domain": "billing"}, "how do we deploy?", ("testing",), False),
        ({"domain": "testing"}, "how do we deploy?", ("testing",), True),
        ({"domain": "billing"}, "", ("testing",), False),
        ({"domain": "billing"}, "", ("billing",), True),
        ({"domain": "billing", "trigger": "deploying on Friday"}, "how do we deploy?", (), True),
        ({"domain": "billing", "trigger": "deploying on Friday"}, "what does the canteen serve?", (), False),
        ({"domain": "billing", "trigger": "refund"}, "may I refund this order at once?", (), True),
        ({"domain": "billing", "trigger": 7}, "card numbers", (), True),
        ({"domain": "billing", "trigger": 7}, "lunch", (), False),
    ],
)
def test_a_constraint_applies_in_its_domain_or_where_its_trigger_is_met(
    make_record: MakeRecord, details: dict[str, object], query: str, domains: tuple[str, ...], applies: bool
) -> None:
    """C3.1: one without a domain everywhere; where nothing tells what does not apply, all of them."""
    censor = make_record("Never log card numbers.", kind="censor", details=details)
    assert is_active(censor, query_terms(query), domains) is applies

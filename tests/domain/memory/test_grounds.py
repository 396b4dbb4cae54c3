"""What a record's words say it stands on."""

from typing import Any

import pytest

from mcp_memory.domain.memory.grounds import passages_of, read, stands_on
from mcp_memory.domain.model.records import Kind

FACT = "The vendor's API allows 100 requests per minute."


@pytest.mark.parametrize(
    ("kind", "text", "details", "passages"),
    [
        ("fact", "The API is slow because it is far away.", {}, ()),
        ("fact", "T-118 showed it, and T-118 alone; see UTF-8.", {}, ("T-118 UTF-8",)),
        ("decision", "Use Redis because it is there. It is fast.", {}, ("it is there",)),
        ("decision", "Der Server ist klein, deshalb nur 3.11 Jobs.", {}, ("Der Server ist klein,",)),
        ("decision", "接口限制每分钟一百次，所以排队。", {}, ("接口限制每分钟一百次，",)),
        ("decision", "Use Redis.", {"reasons": ["fast", 3], "reason": "near"}, ("fast", "near")),
        ("decision", "Use Redis.", {"reasons": 3}, ()),
        ("procedure", "Run it.", {"name": "Release", "description": "How."}, ("Run it.\nRelease\nHow.",)),
    ],
)
def test_reasons_whole_guidance_and_labels_may_name_a_ground(
    kind: Kind, text: str, details: dict[str, Any], passages: tuple[str, ...]
) -> None:
    """N3.1."""
    assert passages_of(kind, text, details) == passages


@pytest.mark.parametrize(
    ("passage", "ground", "is_ground"),
    [
        ("the vendor only allows 100 requests a minute", FACT, True),
        ("the vendor only allows 50 requests a minute", FACT, False),
        ("vendor API", FACT, False),
        ("API and vendor allow us to pay by card and by invoice", FACT, False),
        ("100 API requests was what we asked for", FACT, True),
        ("100 requests was what we asked for", FACT, False),
        ("users are on mobile phones mostly", "Most users are on a mobile phone.", True),
        ("edit config/limits.yaml", "config/limits.yaml holds the quotas.", True),
        ("edit limits.yaml", "config/limits.yaml holds the quotas.", True),
        ("edit old_limits.yaml", "limits.yaml holds the quotas.", False),
        ("edit deploy.sh", "Files: one.py, two.py, three.py, four.py and deploy.sh.", False),
        ("run make release twice", "`make release` builds the wheel.", True),
        ("install Node 20 first", "Production runs on Node 20.", True),
        ("wait 20 minutes", "It takes 20 minutes.", False),
    ],
)
def test_guidance_stands_on_what_it_restates_or_names(passage: str, ground: str, is_ground: bool) -> None:
    """N3.1: a shared subject is not enough."""
    assert stands_on(read(passage), read(ground), "procedure", "fact") is is_ground


@pytest.mark.parametrize(
    ("kind", "ground_kind", "text", "is_ground"),
    [
        ("fact", "episode", "T-118: the load test broke at 900 orders.", True),
        ("fact", "result", "T-118 → broke at 900 orders", True),
        ("fact", "fact", "T-118 was run on the perf cluster.", False),
        ("decision", "fact", "T-118 was run on the perf cluster.", True),
        ("fact", "episode", "T-119: the load test broke at 900 orders.", False),
        ("procedure", "episode", "Yesterday deploy.sh failed.", False),
    ],
)
def test_any_record_stands_on_the_outcome_of_the_task_it_names(
    kind: Kind, ground_kind: Kind, text: str, is_ground: bool
) -> None:
    """N3.1: what else names the task is a sibling."""
    passage = "run deploy.sh" if kind == "procedure" else "T-118"
    assert stands_on(read(passage), read(text), kind, ground_kind) is is_ground

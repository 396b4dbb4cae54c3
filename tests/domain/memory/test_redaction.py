"""Every text of an item to store passes the redactor."""

from dataclasses import asdict
from typing import Any, get_type_hints

from mcp_memory.domain.memory.redaction import clean_record
from mcp_memory.domain.model.message_files import Attachment
from mcp_memory.domain.model.records import (
    Entity,
    Instant,
    Kind,
    NewRecord,
    Outcome,
    Relation,
    Visibility,
)

KEY = "hunter2"
IDS = {"supersedes", "depends_on", "task_id"}
"""Fields that name what is stored already: others in them are refused."""
WITHOUT_TEXT = (int, bool, float, float | None, Instant | None, Kind, Outcome | None, Visibility)
"""Types that hold no words of anybody; files are named in the details by then."""
FILLED: list[tuple[Any, Any]] = [
    (str, KEY),
    (str | None, KEY),
    (tuple[str, ...], (KEY,)),
    (get_type_hints(NewRecord)["details"], {"reasons": [{"why": KEY}]}),
    (tuple[Entity, ...], (Entity(name=KEY, type=KEY, properties={"at": KEY}),)),
    (tuple[Relation, ...], (Relation(source=KEY, type=KEY, target=KEY),)),
]
"""A value with a secret at each of its places, for each type of a field that may hold one."""


def test_no_field_of_an_item_keeps_a_secret() -> None:
    """R4: a new field of any other type fails here until it is cleaned, or named above as one that holds no text."""
    filled: dict[str, Any] = {}
    for name, held in get_type_hints(NewRecord).items():  # Without marks.
        if held not in (*WITHOUT_TEXT, tuple[Attachment, ...]) and name not in IDS:
            [filled[name]] = [value for wanted, value in FILLED if wanted == held]
    safe, redacted, _ = clean_record(NewRecord(**filled), lambda text: (text.replace(KEY, "…"), text.count(KEY)))
    assert KEY not in str(asdict(safe))
    assert redacted == str(filled).count(KEY)

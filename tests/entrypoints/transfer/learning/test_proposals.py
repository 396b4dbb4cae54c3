"""Records that an agent proposes: what a line may hold, and what is said of one that is wrong."""

import json
from io import BytesIO

import pytest

from mcp_memory.domain.model.limits import MAX_ITEMS
from mcp_memory.entrypoints.server.plugin_texts import learn_instruction
from mcp_memory.entrypoints.transfer.learning.proposals import MOST_BYTES, ProposedRecord, read_proposals
from mcp_memory.errors import InvalidRequest

PORT = '{"text": "The port is 8081.\u2028It is fixed."}'


def test_a_text_is_enough_and_the_line_of_the_instruction_is_read() -> None:
    [line] = [each for each in learn_instruction().splitlines() if each.startswith("{")]
    bare, shown = read_proposals(BytesIO(f"\ufeff{PORT}\r\n\n{line}".encode()))
    assert bare == ProposedRecord(text="The port is 8081.\u2028It is fixed.")
    assert {**json.loads(line), "tags": ("build",)} == {
        name: getattr(shown, name) for name in ("kind", "text", "source", "day", "tags")
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is no JSON object; write one record a line: {"),
        (f"[{PORT}]", "line 2 is no JSON object"),
        ("{" * 100_000, "line 2 is no JSON object"),
        ('{"kind": "fact"}', "line 2: `text` is required."),
        ('{"text": " "}', "line 2: `text` must not be empty."),
        ('{"text": "A", "kind": "identity"}',
         "line 2: `kind` must be one of 'fact', 'decision', 'procedure' or 'censor', not 'identity'."),
        ('{"text": "A", "day": "yesterday"}', "line 2: `day` must be a day such as 2026-03-01."),
        ('{"text": "A", "day": "20260301"}', "line 2: `day` must be a day such as 2026-03-01."),
        ('{"text": "A", "tags": "build"}', "line 2: `tags` must be a list."),
        ('{"text": "A", "sources": "commit 1a2b3c4"}', "line 2: There is no field `sources`; the nearest is `source`."),
        ('{"text": "A", "details": {"action": "block"}}', "line 2: There is no field `details`"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_with_what_to_write(line: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_proposals(BytesIO(f"{PORT}\n{line}\n".encode()))
    assert str(refused.value).startswith(f"Standard input, {said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n\n", "Standard input holds no record; write one a line"),
        (b"\xff\xfe", "Standard input is not UTF-8 text"),
        (b" " * (MOST_BYTES + 1), "Standard input holds more than 4 MB; split it."),
        (f"{PORT}\n".encode() * (MAX_ITEMS + 1), "Standard input holds 501 records, and 500 are the most; split it."),
    ],
)
def test_a_file_has_bounds(content: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        read_proposals(BytesIO(content))

"""The table of sections: what is shown where."""

from collections.abc import Callable

from mcp_memory.domain.context.budget import ALWAYS, STANDING
from mcp_memory.domain.model.context_sections import SECTIONS, Section, section_of
from mcp_memory.domain.model.records import KINDS, Record
from mcp_memory.domain.model.strategy import SECTION_SHARES
from mcp_memory.domain.text.prompt_safety import neutralise

MakeRecord = Callable[..., Record]


def test_every_kind_has_a_section(make_record: MakeRecord) -> None:
    """B6.1."""
    shown = {kind: section_of(make_record(kind=kind)).title for kind in KINDS}
    assert shown["summary"] == shown["episode"] == "Past Experience"
    assert len(set(shown.values())) == 8


def test_a_row_is_all_that_a_section_of_records_needs(make_record: MakeRecord) -> None:
    """O3.1: the first row that takes a record shows it."""
    opened = Section(title="Open Questions", kinds=("decision",), takes=lambda record: record.outcome == "pending")
    asked, answered = (make_record(kind="decision", outcome=outcome) for outcome in ("pending", "success"))
    assert [section_of(each, (opened, *SECTIONS)) for each in (asked, answered)] == [opened, section_of(answered)]


def test_the_shares_of_sections_are_those_of_the_budget() -> None:
    """O3.1: a part of their own, or one that strategies divide."""
    for section in SECTIONS:
        assert not section.share or section.share in ALWAYS | STANDING.keys() | SECTION_SHARES
        assert not section.kinds or section.share or section.title == "Recent Activity"


def test_no_text_begins_with_a_heading_of_ours() -> None:
    """B11.1: the titles that are looked for are those of the table."""
    assert all(f"\\##{each.title}" in neutralise(f"x\n##{each.title}") for each in SECTIONS)

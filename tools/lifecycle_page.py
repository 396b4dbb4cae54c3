"""Writes the tables and diagrams of docs/lifecycle.md from the code: `python tools/lifecycle_page.py`."""

from pathlib import Path

from mcp_memory.domain.model.lifecycle import LIFECYCLES, PAST, stages
from mcp_memory.domain.model.records import KINDS, Kind

PAGE = Path(__file__).parent.parent / "docs" / "lifecycle.md"
BEGIN, END = "<!-- from the code: begin -->", "<!-- from the code: end -->"


def page_part() -> str:
    """What stands between the marks: a section for each life, which several kinds may share."""
    lives: dict[str, list[Kind]] = {}
    for kind in KINDS:
        lives.setdefault(_section(kind), []).append(kind)
    return "\n".join(f"### {', '.join(kinds)}\n\n{section}" for section, kinds in lives.items())


def written(page: str) -> str:
    """The page with that part as the code has it now."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{page_part()}\n{END}{after}"


def _section(kind: Kind) -> str:
    rows = [
        f"| {before} | {after} | {why} |" for before, moves in LIFECYCLES[kind].items() for after, why in moves.items()
    ]
    table = "\n".join(["| from | to | when |", "|---|---|---|", *rows])
    return f"{_diagram(kind)}\n\n{table}\n"


def _diagram(kind: Kind) -> str:
    """The stages side by side; what leads out of each of them and back is drawn once."""
    moves = LIFECYCLES[kind]
    lines = ["stateDiagram-v2", "    [*] --> holds", "    state holds {", f"        [*] --> {stages(kind)[0]}"]
    lines += [
        f"        {before} --> {after}: {why}"
        for before in stages(kind)
        for after, why in moves[before].items()
        if after not in PAST
    ]
    lines += ["    }", *(f"    holds --> {end}: {moves[stages(kind)[0]][end]}" for end in PAST)]
    lines += [f"    {end} --> holds: restored" for end in PAST]
    lines += [f"    {a} --> {b}: {why}" for a in PAST for b, why in moves[a].items() if b in PAST]
    return "\n".join(["```mermaid", *lines, "```"])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")

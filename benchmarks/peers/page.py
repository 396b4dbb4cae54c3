"""Writes docs/comparison.md and the block in README.md from benchmarks/data/peers.json.

python -m benchmarks.peers.page
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.peers import results
from benchmarks.peers.servers import OURS

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "comparison.md", ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- comparison: begin -->", "<!-- comparison: end -->"
Figures = Mapping[str, Any]
Row = Mapping[str, str]
WIDE = 150


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of the comparison: what it is called, its part, where it lies in that part, and how it is printed.

    `value` gives the figures of a server to one number, None where it has none. Less is better unless `more`.
    """

    name: str
    part: str
    value: Callable[[Figures], float | None]
    printed: Callable[[Figures], str]
    more: bool = False


def cost(name: str, key: str, unit: str, digits: int) -> Measure:
    def printed(server: Figures) -> str:
        each = server[key]
        return f"{each['value']:.{digits}f} {unit} ({each['low']:.{digits}f}–{each['high']:.{digits}f})"

    return Measure(name, "cost", lambda server: server[key]["value"], printed)


def share(name: str, part: str, found: Callable[[Figures], Figures | None], *, more: bool = True) -> Measure:
    def value(server: Figures) -> float | None:
        each = found(server)
        return each["hits"] / each["of"] if each else None

    return Measure(name, part, value, lambda server: percent(found(server)), more)


def in_set(name: str, key: str) -> Callable[[Figures], Figures | None]:
    """The share of that name in one data set."""
    return lambda server: server.get(name, {}).get(key)


def in_all(key: str) -> Callable[[Figures], Figures | None]:
    """The shares of that name in all data sets, as one."""

    def found(server: Figures) -> Figures | None:
        each = [one[key] for one in server.values() if key in one]
        return results.share(sum(one["hits"] for one in each), sum(one["of"] for one in each)) if each else None

    return found


def percent(share: Figures | None) -> str:
    """As "18 of 20 (70–97 %)", with the interval."""
    return f"{share['hits']} of {share['of']} ({share['low']:.0f}–{share['high']:.0f} %)" if share else "–"


def seconds(name: str, key: str) -> Measure:
    def printed(server: Figures) -> str:
        return f"{1_000 * server[key]:.0f} ms" if key in server else "never"

    return Measure(name, "lag", lambda server: server.get(key), printed)


COSTS = (
    cost("first search", "first", "s", 2), cost("CPU of a first search", "first_cpu", "s", 2),
    cost("private memory", "private", "MiB", 0),
    cost("store", "store", "ms", 1), cost("CPU of a store", "store_cpu", "ms", 1),
    cost("search", "search", "ms", 1), cost("CPU of a search", "search_cpu", "ms", 1),
)  # fmt: skip
FOUND = share("all three", "retrieval", in_all("found"))
FINDS = (
    share("conversation", "retrieval", in_set("locomo", "found")),
    share("preferences", "retrieval", in_set("prefeval", "found")),
    share("code", "retrieval", in_set("cosqa", "found")),
)
SHOWS = tuple(share(f"in {budget:,} tokens", "answers", in_all(f"search {budget}")) for budget in (300, 1_000))
BLOCKS = tuple(share(f"block of {budget:,} tokens", "answers", in_all(f"block {budget}")) for budget in (300, 1_000))
LOST = share("lost of the acknowledged", "writers", lambda server: server.get("lost"), more=False)
REFUSED = Measure(
    "refused", "writers", lambda server: server.get("refused", 0), lambda server: str(server.get("refused", 0))
)
SHARING = (LOST, REFUSED, seconds("readable after, median", "median"), seconds("readable after, at worst", "worst"))


def figures_of(figures: Figures, measure: Measure, name: str) -> Figures | None:
    """What its part says of a server; None where it failed or was not measured."""
    server = figures["parts"].get(measure.part, {}).get("servers", {}).get(name)
    return server if server and "failure" not in server else None


def cell(figures: Figures, measure: Measure, name: str) -> str:
    server = figures_of(figures, measure, name)
    return measure.printed(server) if server else "–"


def table(figures: Figures, measures: Sequence[Measure]) -> list[str]:
    """A row for each server that has at least one of the figures."""
    rows = [["server", *(measure.name for measure in measures)], ["---", *("---:" for _ in measures)]]
    for name in figures["servers"]:
        if any(figures_of(figures, measure, name) for measure in measures):
            shown = f"**{name}**" if name == OURS.name else name
            rows.append([shown, *(cell(figures, measure, name) for measure in measures)])
    return [f"| {' | '.join(row)} |" for row in rows]


def behind(figures: Figures) -> list[str]:
    """Every figure in which another server is better than this one, with both values.

    This server's block is compared with what the others' search gives in the same budget.
    """
    lines = list[str]()
    compared = [(each, each) for each in (*COSTS, *FINDS, *SHOWS, *SHARING)]
    for measure, theirs in [*compared, *zip(BLOCKS, SHOWS, strict=True)]:
        own = figures_of(figures, measure, OURS.name)
        mine = measure.value(own) if own else None
        if own is None or mine is None:
            continue
        better = [
            f"{'its own search' if name == OURS.name else name} {theirs.printed(server)}"
            for name in figures["servers"]
            if (server := figures_of(figures, theirs, name)) and (value := theirs.value(server)) is not None
            and (value > mine if measure.more else value < mine)
        ]  # fmt: skip
        if better:
            lines.append(f"- **{titled(measure)}**: {OURS.name} {measure.printed(own)}; {', '.join(better)}.")
    return lines or ["In none of these figures."]


def titled(measure: Measure) -> str:
    before = {"retrieval": "Found, ", "answers": "Answered, "}.get(measure.part, "")
    name = f"{before}{measure.name}"
    return name[0].upper() + name[1:]


def purposes(figures: Figures) -> list[str]:
    rows = ["| server | version | for | embeds with | shares a memory by |", "|---|---|---|---|---|"]
    for name, each in figures["servers"].items():
        shared = each["shared"] or f"cannot: {each['alone']}"
        rows.append(f"| {name} | {each['version']} | {each['for']} | {each['embeds with']} | {shared} |")
    return rows


def failures(figures: Figures) -> list[str]:
    """Servers that could not be run, each once, with the parts that it is missing from."""
    missing = dict[tuple[str, str], list[str]]()
    for part, measured in figures["parts"].items():
        for name in figures["servers"]:
            server = measured["servers"].get(name, {"failure": "not measured"})
            if "failure" in server:
                missing.setdefault((name, server["failure"]), []).append(part)
    return [
        f"- {name} has no figure for {', '.join(parts)}: {plain(reason)}" for (name, reason), parts in missing.items()
    ]


def refusals(figures: Figures) -> list[str]:
    """What servers refused of what they were given, with the first reason in their words."""
    said = list[str]()
    for part, measured in figures["parts"].items():
        for name, server in measured["servers"].items():
            said += refused(f"{name}, {part}", server)
            for data, each in server.items():
                if isinstance(each, dict):
                    said += refused(f"{name}, {data}", cast("Figures", each))
    return said


def refused(who: str, figures: Figures) -> list[str]:
    told = [f"{figures[key]} {key}" for key in ("texts refused", "questions refused", "refused") if key in figures]
    return [f"- {who}: {', '.join(told)}: {plain(figures['reason'])}"] if told else []


def plain(reason: str) -> str:
    """A reason as code, on one line, without what ends it early."""
    text = re.sub(r"\s+", " ", reason.replace("`", "'").replace("|", "/")).strip()
    return f"`{text[:117]}…`" if len(text) > 120 else f"`{text}`"


def sizes(figures: Figures, part: str) -> str:
    sets = figures["parts"].get(part, {}).get("conditions", {})
    return ", ".join(f"{name} ({each['records']} texts, {each['questions']} questions)" for name, each in sets.items())


def dates(figures: Figures) -> str:
    return " and ".join(sorted({str(part["date"]) for part in figures["parts"].values()}))


TITLE = "# Beside other memory servers"
INTRODUCTION = """\
What this server and others cost, find, show and lose: measured over stdio on the same texts by one command. The page is
written from `benchmarks/data/peers.json` by `python -m benchmarks.peers --peers-dir DIR --retrieval DIR --histories DIR
--write`, which measures again; the figures are of {dates}. Brackets give the range over {rounds} fresh processes (for
a store, over the groups of ten texts), or the 95 % interval of a share (Wilson)."""
CONDITIONS = """\
- **Machine**: {cores} cores, shared with other work, no network. Compare seconds with each other, not with those
  of another page: [benchmarks.md](benchmarks.md) has this server's own, less disturbed. Servers take turns.
- **Install**: each as its package index gives it on that day, in a folder of its own, with a home folder of its own. No
  model could be downloaded. Those "with MiniLM" got this project's 8-bit weights where they keep their download;
  float32 weights, which they would fetch, take two to four times as long ([model.md](model.md)).
- **Cost**: {records} texts of an agent's memory, one a call, then fresh processes. The first search counts from the
  start of the process. Private memory (USS) is that of all processes of the server, here with the memory's owner.
- **Found**: {retrieval}. Questions are in other words than the texts; both are drawn by a
  fixed seed from public sets. A text counts if it is among five results, whole or by twenty words in a row.
- **Answered**: {answers}: real histories. Texts alone are
  stored, without kinds and dates. Ten results are asked for, and what comes back is cut at the budget, with all that
  the server writes around it (tokens of cl100k_base). Only this server has a block for a budget: `assemble_context`.
  Nearly half of these texts answer a question, so this is easier than a whole history
  ([benchmarks.md](benchmarks.md#two-real-histories)).
- **Writers**: {clients} clients of one memory store {each} texts each at once (rounds: {write_rounds}), and the first
  one's processes are killed (SIGKILL) after 12 acknowledgements, while it stores. Lost is what was acknowledged and is
  not found by its own text in a fresh process. A refused call was answered with an error: the client knows.
- **Readable after**: from the acknowledgement of a store to the end of the first search by another client that finds
  it, {stores} times. A slow search counts as a lag.
"""
READING = """\
A vector database as tools, an example of a knowledge graph, or notes that a person edits do other work than a memory
that fills a budget; a low figure says nothing about that work. The samples are small: servers whose intervals overlap
count as equal."""


def comparison(figures: Figures) -> str:
    """The page."""
    parts = figures["parts"]
    conditions = {name: parts.get(name, {}).get("conditions", {}) for name in ("cost", "writers", "lag")}
    stated = CONDITIONS.format(
        cores=conditions["cost"].get("cores", "?"), records=conditions["cost"].get("records", "?"),
        retrieval=sizes(figures, "retrieval"), answers=sizes(figures, "answers"),
        clients=conditions["writers"].get("clients", "?"), each=conditions["writers"].get("texts each", "?"),
        write_rounds=conditions["writers"].get("rounds", "?"), stores=conditions["lag"].get("stores", "?"),
    )  # fmt: skip
    introduction = INTRODUCTION.format(dates=dates(figures), rounds=conditions["cost"].get("rounds", "?"))
    sections: Iterable[Sequence[str]] = (
        (TITLE, "", introduction),
        ("## What it costs", "", *table(figures, COSTS)),
        ("## What it finds among five, and shows in a budget", "", *table(figures, (*FINDS, FOUND)), "",
         "The answering words of real histories in the first tokens that come back, and in this server's block:", "",
         *table(figures, (*SHOWS, *BLOCKS))),
        ("## Several clients", "", *table(figures, SHARING)),
        ("## Where we are behind", "", *behind(figures), "", READING),
        ("## What each is for", "", *purposes(figures)),
        ("## Conditions", "", stated.rstrip()),
        ("## What did not run, or was refused", "", *(failures(figures) + refusals(figures) or ["Nothing."])),
    )  # fmt: skip
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


@dataclass(frozen=True, slots=True)
class Compared:
    """A row of the README's table; `is_ahead` where no other figure is better."""

    what: str
    here: str
    others: str
    is_ahead: bool


def block(figures: Figures) -> str:
    """The two tables between the marks in README.md: where no other is better, then where one is."""
    rows = [*rows_of_peers(figures), *rows_of_benchmarks(BENCHMARKS.read_text("utf-8"))]
    lines = list[str]()
    for title, is_ahead in (("ahead, or level with the best", True), ("behind", False)):
        shown = [f"|{row.what}|{row.here}|{row.others}|" for row in rows if row.is_ahead is is_ahead]
        lines += ["", f"|{title}|here|others|", "|---|---|---|", *shown] if shown else []
    return "\n".join(lines[1:])


def rows_of_peers(figures: Figures) -> Iterable[Compared]:
    """A row for each of IN_README that this server and another have, with the best of the others."""
    for what, measure in IN_README.items():
        shown = {
            server: each
            for server in figures["servers"]
            if (each := figures_of(figures, measure, server)) and measure.value(each) is not None
        }
        own = shown.pop(OURS.name, None)
        if own is None or not shown:
            continue
        best, worst = (choose(shown.values(), key=lambda each: _rank(measure, each)) for choose in (min, max))
        others = _whose(measure, best, shown)
        if measure is LOST and measure.value(worst):
            others += f" to {_whose(measure, worst, shown)}"
        yield Compared(what, _short(measure, own), others, _rank(measure, own)[0] <= _rank(measure, best)[0])


def _whose(measure: Measure, figure: Figures, shown: Mapping[str, Figures]) -> str:
    """A figure with the server that has it, or the number of those: "1 ms (2 servers)"."""
    told = _short(measure, figure)
    named = [server for server, each in shown.items() if _short(measure, each) == told]
    return f"{told} ({named[0] if len(named) == 1 else f'{len(named)} servers'})"


def _rank(measure: Measure, server: Figures) -> tuple[float, float]:
    """The better, the less; of equal shares that of the larger sample first."""
    value = measure.value(server) or 0.0
    return (-value if measure.more else value, -float(_short(measure, server).rpartition(" of ")[2].split()[0]))


def _short(measure: Measure, server: Figures) -> str:
    """A figure without what stands in brackets: "48 of 60", "16 ms"."""
    told = measure.printed(server).partition(" (")[0]
    number, _, unit = told.partition(" ")
    return f"{float(number):.0f} {unit}" if measure.part == "cost" else told


_LOCOMO = re.compile(r"^([\d.]+), where the best retriever of the paper \(DRAGON\) has ([\d.]+)\.", re.MULTILINE)
_HISTORIES = re.compile(
    r"^\| (?:`recall`; `assemble_context`|fusion) \|(?:[^|]*\|){3} (\d+), (\d+) \| (\d+), (\d+) \|", re.MULTILINE
)
"""Two rows of docs/benchmarks.md: the answered questions of both histories in 300 tokens, then in 1,000."""


def rows_of_benchmarks(text: str) -> Iterable[Compared]:
    """The rows of the README's table that docs/benchmarks.md has. Raises ValueError where it has them no more."""
    [(ours, theirs)] = _LOCOMO.findall(text)
    mine, fusion = ([int(number) for number in row] for row in _HISTORIES.findall(text))
    shares = f"{float(ours):.0f} %", f"{float(theirs):.0f} % (DRAGON)"
    yield Compared("evidence among ten results; all LoCoMo", *shares, float(ours) >= float(theirs))
    for place, budget in ((2, "1,000"), (0, "300")):
        here, there = (sum(each[place : place + 2]) for each in (mine, fusion))
        what = f"59 questions answered in {budget} tokens; two projects' whole histories"
        yield Compared(what, f"{here} of 59", f"{there} of 59 (BM25 with MiniLM)", here >= there)


IN_README = {
    "acknowledged writes lost; one of four writers killed": LOST,
    "60 questions answered among five results; 300 texts": FOUND,
    "59 questions answered in 1,000 tokens; 200 of two projects' texts": SHOWS[-1],
    "until another client finds what was stored": SHARING[2],
    "CPU of a search among 50 texts": COSTS[-1],
}


def with_block(readme: str, figures: Figures) -> str:
    """The README with the block between its marks."""
    before, _, rest = readme.partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{block(figures)}\n{END}{after}"


def write(figures: Figures) -> None:
    """Write the page, and the block where README.md has the marks."""
    PAGE.write_text(comparison(figures), "utf-8")
    readme = README.read_text("utf-8")
    if BEGIN in readme:
        README.write_text(with_block(readme, figures), "utf-8")


if __name__ == "__main__":
    write(results.read())

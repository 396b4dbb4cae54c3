"""Computes the pressure of a session's log: its fill, its makeup, and the compaction that both call for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mcp_memory.domain.model.session_log import (
    STANDS_FOR_MANY,
    CompactionOptions,
    Entry,
    PassName,
    SessionLog,
    is_long,
)

Level = Literal["calm", "notice", "idle", "forced", "ceiling"]
"""`notice`: worth knowing; `idle`: compacted when nothing happens; `forced`: compacted at once, with a warning;
`ceiling`: preserved entries are dropped as well."""
Dominant = Literal["tool_output", "user", "assistant", "summaries"]

DOMINATES = 0.5  # share of the log's tokens
MUCH_IS_SUMMARY = 0.6  # share of the log's tokens that are blocks
SUMMARY_SHARE, LEAST_SUMMARY, MOST_SUMMARY = 0.05, 1_000, 12_000
"""The share of the window that a summary takes, between these numbers of tokens."""
FOUND_WANTING = 0.5
"""The share of unhelpful among judged summaries from which the next ones are longer."""
CROWDED_ENTRIES = 4
"""The last entries that stay where all that usually stay would fill the log again."""
LONGER = 1.5  # factor for summaries after unhelpful ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """A log's tokens against its window, both as counted."""

    tokens: int
    window: int
    level: Level

    @property
    def share(self) -> float:
        return self.tokens / self.window


def pressure(tokens: int, options: CompactionOptions) -> Pressure:
    """Return the pressure of a log of so many tokens."""
    return Pressure(tokens=tokens, window=options.window, level=_level(options.share(tokens), options))


def _level(share: float, options: CompactionOptions) -> Level:
    if share > options.ceiling:  # At the ceiling itself nothing has to be dropped yet.
        return "ceiling"
    if share >= options.threshold:
        return "forced"
    if share >= options.idle:
        return "idle"
    return "notice" if share >= options.notice else "calm"


def warnings(at: Pressure, options: CompactionOptions, compactions: int) -> tuple[str, ...]:
    """List the facts about a log that you fill, and your next move."""
    said: list[str] = []
    full = f"The log fills {at.share:.0%} of its window"
    if at.level == "notice":
        said.append(f"{full}; from {options.idle:.0%} on it is compacted when idle.")
    elif at.level == "idle":
        said.append(f"{full}; call compact at the next good moment, at {options.threshold:.0%} it is forced.")
    elif at.level == "forced":
        said.append(f"{full}; it has to be compacted: call compact, or start a new session from assemble_context.")
    elif at.level == "ceiling":
        said.append(f"{full}, more than {options.ceiling:.0%}: call compact; if that was just now, raise window.")
    if compactions >= 2:
        said.append(
            f"This session has been compacted {compactions} times; each summary is further from the originals:"
            " open them with recall, or start a new session from assemble_context."
        )
    return tuple(said)


def makeup(log: SessionLog) -> Mapping[Dominant, float]:
    """Return the makeup of the log: shares of its tokens, in [0, 1], that sum to 1; all 0 for an empty log."""
    tokens: dict[Dominant, int] = {"tool_output": 0, "user": 0, "assistant": 0, "summaries": 0}
    for entry in log.entries:
        tokens[_makes(entry)] += entry.tokens
    whole = max(log.tokens, 1)
    return {name: count / whole for name, count in tokens.items()}


def _makes(entry: Entry) -> Dominant:
    if entry.form in STANDS_FOR_MANY:
        return "summaries"
    if entry.kind == "tool_result":
        return "tool_output"
    return "user" if entry.is_users else "assistant"


def adapted(
    options: CompactionOptions, shares: Mapping[Dominant, float], wanting: float | None
) -> tuple[CompactionOptions, str]:
    """Return the options adapted to this log, and the changes with their reasons, "" without a change.

    Where tool output dominates, shorter outputs are masked. Where the user's words do, their long material may be
    compacted too. Where blocks do, they are merged into the summary sooner, and no further batches are made.
    `wanting` is the share of judged earlier summaries that did not help, in [0, 1].
    """
    notes: list[str] = []
    room = min(max(int(options.window * SUMMARY_SHARE), LEAST_SUMMARY), MOST_SUMMARY)
    if wanting is not None and wanting >= FOUND_WANTING:
        room = int(room * LONGER)
        notes.append(f"{wanting:.0%} of the judged summaries did not help: longer ones")
    options = replace(options, summary_tokens=min(room, max(options.window // 4, 1)))
    if shares["tool_output"] >= DOMINATES:
        options = replace(options, least_output=options.least_output // 2)
        notes.append(f"tool output is {shares['tool_output']:.0%}: shorter outputs go too")
    if shares["user"] >= DOMINATES:
        options = replace(options, fold_material=True)
        notes.append(f"the user's words are {shares['user']:.0%}: long material goes too, instructions stay")
    if shares["summaries"] >= MUCH_IS_SUMMARY:
        sooner = min(options.threshold, options.idle)
        options = replace(options, threshold=sooner, passes=_without_batches(options.passes))
        notes.append(f"blocks are {shares['summaries']:.0%}: they are merged from {sooner:.0%} on, not batched")
    return options, "; ".join(notes)


def aimed(options: CompactionOptions, log: SessionLog, *, is_forced: bool) -> CompactionOptions:
    """Return the options with another aim, where the usual one would leave the log nearly as it is.

    Half of the log is the target, where that is less, and the current turn alone exceeds the usual target, or, if
    forced, that half. Of a log above its ceiling whose last entries alone exceed the target, few of them stay.
    """
    half = replace(options, target=min(options.target, options.share(log.tokens) / 2))
    is_turn_long = bool(log.turns) and is_long(log, log.turns[-1], half if is_forced else options)
    options = half if is_turn_long else options
    end = sum(entry.tokens for entry in log.entries[-options.end_entries :])
    is_crowded = options.share(log.tokens) > options.ceiling and end > options.tokens(options.target)
    if is_crowded:
        options = replace(options, end_entries=min(options.end_entries, CROWDED_ENTRIES))
    return options


def _without_batches(passes: tuple[PassName, ...]) -> tuple[PassName, ...]:
    return tuple(name for name in passes if name != "goal_batch")

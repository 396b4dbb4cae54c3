"""Shows the demo's scenes to a person. Knows the answers' shape, not how they came about."""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.text import Text

from mcp_memory.entrypoints.cli.console import visible
from mcp_memory.entrypoints.cli.demo import Step
from mcp_memory.entrypoints.cli.demo_script import NEXT
from mcp_memory.entrypoints.cli.screens import STATUS_STYLES, record_lines, task_screen
from mcp_memory.entrypoints.clients import running_command

Answer = Mapping[str, Any]
SHORT_CHARS = 180


class DemoScreen:
    """Prints each scene as it is handed over."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scenes: Mapping[str, tuple[str, Callable[[Answer], Sequence[RenderableType]]]] = {
            "start": ("A memory server starts, as a child process over stdio", _started),
            "remember": ("Nine days of a small project are remembered", _remembered),
            "correct": ("Something has changed since", _corrected),
            "recall": ("Recall", _recalled),
            "work": ("A goal, its plan, and what came of the first steps", _worked),
            "context": ("The context for the next step, inside a hard budget", _assembled),
            "kill": ("The server is killed, without a chance to save anything", _killed),
            "restart": ("A new server starts on the same memory", _started),
            "resume": ("Everything is still there, and so is where the work stands", _resumed),
        }

    def show(self, step: Step) -> None:
        """One scene: a heading with its time, and what there is to see."""
        title, scene = self._scenes[step.name]
        if step.name == "recall":
            title = f"Recall {step.result['shows']}"
        self._console.print()
        self._console.print(Text.assemble((title, "bold"), (f"  {step.seconds:.2f} s", "dim")))
        for part in scene(step.result):
            self._console.print(part)

    def close(self, seconds: float) -> None:
        """How long it took, and what to do next."""
        self._console.print()
        self._console.print(Text(f"All of it took {seconds:.1f} s; the demo's memory is deleted again. Next:", "bold"))
        start = running_command()
        program = shlex.join((start.command, *start.arguments))
        for what, command in NEXT.items():
            line = Text.assemble(f"  {what}: ", (f"{program} {command}", "cyan"))
            self._console.print(line, soft_wrap=True)


def _started(answer: Answer) -> Sequence[RenderableType]:
    tools = ", ".join(answer["tools"])
    return [Text(f"{answer['server']} {answer['version']}, protocol {answer['protocol']}. Tools: {tools}.")]


def _remembered(answer: Answer) -> Sequence[RenderableType]:
    kinds = ", ".join(f"{number} {kind}" for kind, number in answer["kinds"].items())
    redacted = sum(record["redacted"] for record in answer["records"])
    kept = answer["redacted"]
    return [
        Text(f"{len(answer['records'])} records in one call, all or none: {kinds}."),
        Text(f"{redacted} secret was cut out before anything was stored:"),
        _quote(f"{kept['speaker']}: {kept['text']}"),
    ]


def _corrected(answer: Answer) -> Sequence[RenderableType]:
    return [
        Text.assemble(("was  ", "dim"), (_short(answer["old"]["text"]), "strike dim")),
        Text.assemble(("now  ", "dim"), _short(answer["text"])),
    ]


def _recalled(answer: Answer) -> Sequence[RenderableType]:
    found = [part for record in answer["results"] for part in record_lines(record)]
    return [_asked(answer), *found]


def _worked(answer: Answer) -> Sequence[RenderableType]:
    return [task_screen(answer["tasks"])]


def _assembled(answer: Answer) -> Sequence[RenderableType]:
    account = answer["context"]
    counted, budget = answer["counted_tokens"], answer["max_tokens"]
    omitted = Counter(_reason(each["reason"]) for each in account["omitted"])
    left_out = "; ".join(f"{number} {reason}" for reason, number in omitted.most_common()) or "nothing"
    used = f"{counted} of {budget} tokens, counted again here (the server said {account['token_count']})"
    return [
        _asked(answer),
        Panel(Text(visible(answer["text"])), title=f"what the agent reads, {counted} of {budget} tokens", expand=False),
        Text(f"{used}. Left out: {left_out}.", "green" if counted <= budget else STATUS_STYLES["failed"]),
    ]


def _killed(answer: Answer) -> Sequence[RenderableType]:
    killed = ", ".join(map(str, answer["killed"]))
    return [Text(f"Processes {killed} are gone." if len(answer["killed"]) > 1 else f"Process {killed} is gone.")]


def _resumed(answer: Answer) -> Sequence[RenderableType]:
    before, after = (sum(answer[name]["records"].values()) for name in ("before", "after"))
    again = "the same context again, to the byte" if answer["same_context"] else "a context again"
    return [Text(f"{after} of {before} records, and {again}."), task_screen(answer["tasks"])]


def _asked(answer: Answer) -> Text:
    return Text.assemble(("? ", "dim"), (answer["query"], "cyan"))


def _quote(text: str) -> Text:
    return Text(f"  {_short(text)}", "italic")


def _short(text: str) -> str:
    text = visible(" ".join(text.split()))
    return text if len(text) <= SHORT_CHARS else f"{text[: SHORT_CHARS - 3]}..."


def _reason(reason: str) -> str:
    return "superseded" if reason.startswith("superseded") else reason

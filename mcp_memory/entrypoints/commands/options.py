"""Options that several commands share, and the memories that they work on.

A command asks the process that owns the memory; where none does, it holds the memory itself.
"""

import inspect
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer

from mcp_memory.domain.model.kind_words import details_in_words, kinds_named
from mcp_memory.domain.model.records import KINDS, Kind
from mcp_memory.domain.text.control_characters import whole_characters
from mcp_memory.entrypoints.commands.performing import ASKED, COMMAND_LINE, AskedCommand, client_at_work, perform
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.ports.walls import beyond

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.bridge.door import Door
    from mcp_memory.settings import Settings

DataDir = Annotated[Path | None, typer.Option("--data-dir", metavar="DIR", help="The folder that holds the memory.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="The project; by default that of the current folder.")
]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="The agent to act as; its private records are visible.")
]
Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="Use the memory of this server; keep none here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
KindOptions = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only of this kind, as guardrail; may be repeated.")
]
TagOptions = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="With any of these tags; +TAG must be there, -TAG must not."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="Show at most this many.")]
Offset = Annotated[int, typer.Option("--offset", metavar="N", min=0, help="Skip this many first.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help='Date, ISO time or "last week".')]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Likewise.")]
Deny = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="PATTERN", help="Calls that a guardrail denies, as 'rm -rf build/*'; repeatable."),
]
KNOWN_DETAILS = f"Known: {details_in_words()}. Others are kept as they are."
"""The part of the help of `--details` that says which fields a kind takes."""
Inactive = Annotated[bool, typer.Option("--inactive", help="Include what was retired or proven wrong.")]


Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_SETTINGS: Mapping[str, Any] = {"data_dir": DataDir, "namespace": Namespace, "agent": Agent, "url": Url}
"""Settings that may stand before any command, and behind those that use them."""


_SPECIAL = frozenset(("context", "named"))
"""Parameters of a command that are no options."""
_DOOR: ContextVar["Door | None"] = ContextVar("door", default=None)
_AT_WORK: ContextVar[str] = ContextVar("command", default="")
"""The name of the command that is at work, e.g. "show"."""


def settings_chosen(chosen: Mapping[str, Any]) -> "Settings":
    """Return the settings with those that the command line names. Raises InvalidRequest."""
    from mcp_memory.settings import load_settings

    if client := client_at_work():
        return client.settings
    try:
        return load_settings(**chosen)
    except InvalidRequest as error:
        raise _by_option(error, chosen) from error


def local_settings(chosen: Mapping[str, Any]) -> "Settings":
    """Return the settings of a command that needs the memory on this machine; see `settings_chosen`.

    Raises InvalidRequest, also where the memory is on a remote server.
    """
    settings = settings_chosen(chosen)
    if settings.url:
        raise InvalidRequest(
            f"The memory is at {settings.url}: run the command where that server keeps its data, or unset"
            " MCP_MEMORY_URL (or leave out --url)."
        )
    return settings


def _by_option(error: InvalidRequest, given: Iterable[str]) -> InvalidRequest:
    """Name the option, instead of the setting, in an error about its value."""
    for name in given:
        setting, variable = f"Setting {name}: ", f" Change MCP_MEMORY_{name.upper()}"
        if str(error).startswith(setting):
            why = str(error).removeprefix(setting).partition(variable)[0]
            return InvalidRequest(f"--{name.replace('_', '-')}: {why}")
    return error


def known_kinds(names: Sequence[str] | None) -> tuple[Kind, ...]:
    """Return the kinds of these words, stored ones or those for people. Raises InvalidRequest."""
    meant = {kind for name in names or () for kind in kinds_named(name)}
    return tuple(kind for kind in KINDS if kind in meant)


@contextmanager
def opened(settings: "Settings", *, takes: bool = True) -> Generator["App"]:
    """Open the memory, or take the one that is open; with `takes=False` claim no namespace for the folder.

    Raises StoreUnavailable, also in place of what a command makes of a damaged file.
    """
    from mcp_memory.entrypoints.host.holding import held

    client = client_at_work()
    whose = client.memory(takes=takes) if client else held(settings, _claimed(settings), perform, takes=takes)
    with whose as memory, beyond(), memory.serving(f"command {_AT_WORK.get()}", agent=settings.agent):
        if client is None:
            memory.own.client = COMMAND_LINE
        # Who has the memory's files may do anything with them.
        try:
            yield memory
        except (ValueError, LookupError, TypeError) as error:
            memory.refuse_damage(error)
            raise


def _claimed(settings: "Settings") -> "Door | None":
    """Return the memory's door; None where the system has none. Raises StoreUnavailable where its owner stays."""
    from mcp_memory.bridge.door import take_over

    if door := _DOOR.get():
        _DOOR.set(None)  # It serves once.
        return door
    return take_over(str(settings.data_dir))


@contextmanager
def opened_existing(settings: "Settings") -> Generator["App"]:
    """Open a memory to look at, never a new one. Raises NotFound where there is none, StoreUnavailable."""
    from mcp_memory.wiring import memory_exists

    if not memory_exists(settings):
        raise NotFound(f"No memory at {settings.data_dir} yet; a server makes it, or name another with --data-dir.")
    with opened(settings, takes=False) as memory:
        yield memory


def _command(
    first: Callable[[Mapping[str, Any]], AbstractContextManager[Any]],
    *names: str,
    asks: bool = False,
    needs_same: bool = False,
) -> Decorator:
    """Turn a function into a command with the options of these names; `first` makes its first argument of them.

    Options behind the command win over those before it. A last parameter `as_json` or `version` stays the last one.
    Where it has such a parameter, the function gets the `context`, or in `named` the names of the settings that the
    command line gives. A command that `asks` works on a memory: its owner runs it, unless it `needs_same` settings and
    they differ.
    """

    def decorate(act: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(act).parameters.values()
        special = {each.name for each in own} & _SPECIAL

        def perform(given: Mapping[str, Any]) -> None:
            _AT_WORK.set(act.__name__.partition("_")[0])
            with first({}) as argument:
                act(argument, **given)

        if asks:
            ASKED[act.__qualname__] = AskedCommand(perform, needs_same)

        @wraps(act)
        def run(context: typer.Context, **given: Any) -> None:
            if context.invoked_subcommand is not None and asks:
                return  # The command that follows does it all.
            root = context.find_root().params
            both = [(name, root[name]) for name in _SETTINGS] + [(name, given.pop(name, None)) for name in names]
            chosen = {name: value for name, value in both if value is not None}
            if folder := chosen.get("data_dir"):  # On the command line a path is relative to the working directory.
                chosen["data_dir"] = folder.expanduser().absolute()
            meant = {name: _characters(value) or root.get(name) or value for name, value in given.items()}
            if "named" in special:
                meant["named"] = list(chosen)
            context_too = {"context": context} if "context" in special else {}
            with ExitStack() as stack:
                if asks and not stack.enter_context(_at_the_door(act.__qualname__, chosen, meant)):
                    return
                _AT_WORK.set(act.__name__.partition("_")[0])
                argument = stack.enter_context(first(chosen))
                act(argument, **meant, **context_too)

        added = [inspect.Parameter(name, _BY_NAME, default=None, annotation=_SETTINGS[name]) for name in names]
        mine = [each.replace(kind=_BY_NAME) for each in own if each.name not in _SPECIAL]
        at = len(mine) - sum(each.name in ("as_json", "version") for each in mine)
        context = inspect.Parameter("context", _BY_NAME, annotation=typer.Context)
        parameters = [context, *mine[:at], *added, *mine[at:]]
        setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010 - typer reads options from it
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


@contextmanager
def _at_the_door(name: str, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> Generator[bool]:
    """Let the owner of the memory run the command, and yield False; True where this process is to run it.

    Raises typer.Exit, InvalidRequest and StoreUnavailable.
    """
    from mcp_memory.bridge import private_sockets
    from mcp_memory.entrypoints.commands.ask_owner import door_or_answer, reads_input

    settings = local_settings(chosen)
    if not settings.data_dir.is_dir() or not private_sockets.are_possible():
        yield True
        return
    answer = door_or_answer(str(settings.data_dir), chosen, name, given)
    if isinstance(answer, int):
        if answer:
            raise typer.Exit(answer)
        yield False
        return
    if reads_input(given):
        answer.release()  # It holds the memory once it has read what may take long to come.
        yield True
        return
    token = _DOOR.set(answer)
    answer.open()  # Who comes now waits.
    try:
        yield True
    finally:
        _DOOR.reset(token)
        answer.release()


def _characters(value: Any) -> Any:
    """Return texts of the command line in whole characters: a byte of another encoding is none. A file's name stays."""
    if isinstance(value, list):
        return [_characters(each) for each in cast("list[Any]", value)]
    return whole_characters(value) if isinstance(value, str) and not os.path.lexists(value) else value


def with_options(*names: str) -> Decorator:
    """Turn a function into a command; its first argument is the settings that the command line names."""
    return _command(nullcontext, *names)


def over_settings(*names: str, asks: bool = False) -> Decorator:
    """Turn a function into a command; its first argument is the settings of the memory here, which it `asks`."""
    return _command(lambda chosen: nullcontext(local_settings(chosen)), *names, asks=asks)


def over_memory(*names: str, needs_same: bool = False) -> Decorator:
    """Turn a function into a command; its first argument is an existing memory.

    It `needs_same` where the memory must have the settings that its user has.
    """

    def first(chosen: Mapping[str, Any]) -> AbstractContextManager["App"]:
        return opened_existing(local_settings(chosen))

    return _command(first, "data_dir", *names, asks=True, needs_same=needs_same)

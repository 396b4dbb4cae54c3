"""Options that several commands share, and the memories that they open."""

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcp_memory.domain.model.records import KINDS, Kind
from mcp_memory.entrypoints.cli.console import errors_in_one_line
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.settings import Settings

DataDir = Annotated[Path | None, typer.Option("--data-dir", metavar="DIR", help="Where the memory lies.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", metavar="NAME", help="The project; by default that of the folder.")
]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="In whose name; its private records are seen.")
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Pass everything on to this server, and keep no memory here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
KindOptions = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only of this kind; may be repeated.")
]
TagOptions = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only with this tag; may be repeated.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="At most so many.")]
Offset = Annotated[int, typer.Option("--offset", metavar="N", min=0, help="Skip so many first.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help='Date, ISO time or "last week".')]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Likewise.")]
Inactive = Annotated[bool, typer.Option("--inactive", help="Also what was retired or proven wrong.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOptions:
    """Settings that may precede any command; None leaves them to the environment and the file."""

    data_dir: Path | None = None
    namespace: str | None = None
    agent: str | None = None
    url: str | None = None


def local_settings(context: typer.Context, behind: GlobalOptions) -> "Settings":
    """Return the settings of a command that needs the memory on this machine; see `settings_chosen`.

    Raises InvalidRequest, also where the memory is on a remote server.
    """
    settings = settings_chosen(context, behind)
    if settings.url:
        raise InvalidRequest(
            f"The memory lies at {settings.url}: run the command where that server keeps its data, or unset"
            " MCP_MEMORY_URL (or leave out --url)."
        )
    return settings


def settings_chosen(context: typer.Context, behind: GlobalOptions) -> "Settings":
    """Return the settings; options behind the command win over those before it. Raises InvalidRequest."""
    from mcp_memory.settings import load_settings

    before: GlobalOptions = context.obj or GlobalOptions()
    given = {name: value for name, value in asdict(behind).items() if value is not None}
    chosen = {**asdict(before), **given}
    if folder := chosen["data_dir"]:  # On the command line a path is relative to the working directory.
        chosen["data_dir"] = folder.expanduser().absolute()
    try:
        return load_settings(**chosen)
    except InvalidRequest as error:
        raise _by_option(error, [name for name, value in chosen.items() if value is not None]) from error


def _by_option(error: InvalidRequest, given: Sequence[str]) -> InvalidRequest:
    """Name the option, instead of the setting, in an error about its value."""
    for name in given:
        setting, variable = f"Setting {name}: ", f" Change MCP_MEMORY_{name.upper()}"
        if str(error).startswith(setting):
            why = str(error).removeprefix(setting).partition(variable)[0]
            return InvalidRequest(f"--{name.replace('_', '-')}: {why} Correct it, and run the command again.")
    return error


def known_kinds(names: Sequence[str] | None) -> tuple[Kind, ...]:
    """Return the kinds of these names. Raises InvalidRequest."""
    if unknown := set(names or ()) - set(KINDS):
        raise InvalidRequest(f"There is no kind {min(unknown)!r}; the kinds are {', '.join(KINDS)}.")
    return tuple(kind for kind in KINDS if kind in (names or ()))


@contextmanager
def opened(settings: "Settings", *, takes: bool = True) -> Generator["App"]:
    """Open the memory, and close it; with `takes=False` claim no namespace for the folder. Raises StoreUnavailable."""
    from mcp_memory.app import open_app

    memory = open_app(settings, takes=takes)
    try:
        yield memory
    finally:
        memory.close()


@contextmanager
def opened_existing(settings: "Settings") -> Generator["App"]:
    """Open a memory to look at, never a new one. Raises NotFound where there is none, StoreUnavailable."""
    from mcp_memory.wiring import memory_exists

    if not memory_exists(settings):
        raise NotFound(f"No memory at {settings.data_dir} yet; a server makes it, or name another with --data-dir.")
    with opened(settings, takes=False) as memory:
        yield memory


def over_memory(*, with_caller: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function over an existing memory a command: add the options that find the memory, and one-line errors.

    The function's first parameter is the memory, its last `as_json`. `with_caller` adds namespace and agent options.
    """
    whose: dict[str, Any] = {"namespace": Namespace, "agent": Agent} if with_caller else {}
    shared: dict[str, Any] = {"data_dir": DataDir, **whose}

    def decorate(act: Callable[..., None]) -> Callable[..., None]:
        @wraps(act)
        def run(context: typer.Context, **given: Any) -> None:
            chosen = GlobalOptions(**{name: given.pop(name) for name in shared})
            with errors_in_one_line(), opened_existing(local_settings(context, chosen)) as memory:
                act(memory, **given)

        *own, last = list(inspect.signature(act).parameters.values())[1:]
        added = [inspect.Parameter(name, last.kind, default=None, annotation=shared[name]) for name in shared]
        context = inspect.Parameter("context", last.kind, annotation=typer.Context)
        parameters = [context, *own, *added, last]
        setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010 - typer reads options from it
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate

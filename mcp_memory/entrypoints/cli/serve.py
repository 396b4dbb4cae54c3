"""Commands that run a server, or ask one: serve, demo (played by `demo.py` against a server of its own), hook.

Slow imports stay inside the functions.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcp_memory import locations
from mcp_memory.entrypoints.commands.console import print_json, screen
from mcp_memory.entrypoints.commands.options import AsJson, local_settings, settings_chosen, with_options
from mcp_memory.errors import InvalidRequest, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from mcp_memory.entrypoints.http.issued_tokens import Issuer
    from mcp_memory.settings import Settings

STOP_SECONDS = 20.0

_OF_HTTP_ALONE = {
    name: f"--{name.replace('_', '-')}" for name in ("host", "port", "allowed_host", "anonymous", "oauth")
}


@with_options("url", "data_dir", "namespace", "agent")
def serve(
    chosen: Mapping[str, Any],
    context: typer.Context,
    http: Annotated[bool, typer.Option("--http", help="Serve many clients over HTTP, until told to stop.")] = False,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on; other machines need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="Port; 0 for any free one.")] = 8765,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name it is reached by, as behind a proxy; repeatable."),
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Let this machine in without a token even if tokens exist.")
    ] = False,
    oauth: Annotated[
        bool, typer.Option("--oauth", help="Take tokens of the OAuth issuer of the settings too; all need a token.")
    ] = False,
) -> None:
    """Serve one client over stdio, which is what a client starts; with --http many."""
    settings = settings_chosen(chosen)
    _check_serving(context, http, settings.url)
    if http:
        from mcp_memory.entrypoints.http.server import Listening
        from mcp_memory.entrypoints.http.server import serve as serve_http

        issuer = open_issuer(settings, anonymous) if oauth else None
        allowed = (*(allowed_host or ()), *((issuer.host,) if issuer else ()))
        listening = Listening(host=host, port=port, allowed_hosts=allowed, anonymous=anonymous, issuer=issuer)
        serve_http(settings, listening)
    else:
        from mcp_memory.entrypoints.owner import client_start

        client_start.serve(chosen)


def open_issuer(settings: "Settings", anonymous: bool) -> "Issuer":
    """Return what takes the tokens of the settings' issuer.

    Raises InvalidRequest for settings that name none, where the extra is not installed, and beside `--anonymous`.
    """
    if anonymous:
        raise InvalidRequest("--oauth asks every client for a token, --anonymous asks none; leave one of them out.")
    try:
        from mcp_memory.entrypoints.http.issued_tokens import issuer_for
    except ModuleNotFoundError as error:
        if error.name != "joserfc":
            raise
        raise InvalidRequest(
            "--oauth needs the extra `oauth`: install mcp-memory-stack[oauth], or leave --oauth out."
        ) from error
    return issuer_for(settings)


def _check_serving(context: typer.Context, http: bool, url: str | None) -> None:
    """Raise InvalidRequest for options that exclude each other."""
    for name, option in _OF_HTTP_ALONE.items():
        source = context.get_parameter_source(name)
        if not http and source is not None and source.name == "COMMANDLINE":
            raise InvalidRequest(f"{option} needs --http.")
    if http and url:
        raise InvalidRequest(
            f"--http serves the memory of this machine, but the memory is at {url}; leave out --http, or unset"
            " MCP_MEMORY_URL (or leave out --url)."
        )


@with_options("data_dir")
def stop(chosen: Mapping[str, Any]) -> None:
    """End the process that serves this memory's client windows; their next call starts another.

    Calls at work are finished first; a command that takes long is interrupted.
    """
    from mcp_memory.bridge import door, private_sockets

    folder = locations.data_dir(chosen)  # Other settings may be damaged: the process is to end all the same.
    if not folder or locations.is_elsewhere(chosen):
        folder = str(local_settings(chosen).data_dir)
    try:
        if not private_sockets.are_possible() or private_sockets.is_free(folder):
            raise NotFound(f"No process serves the memory in {folder}.")
        owner = door.owner_of(folder)
        with door.greet(folder, "stop", {}) as connection:
            connection.settimeout(STOP_SECONDS)
            connection.recv(1)
    except PermissionError as error:
        raise StoreUnavailable(f"{folder} may not be opened; work as the user whose it is.") from error
    except OSError as error:
        raise StoreUnavailable(door.silence(folder)) from error
    who, until = f"Process {owner['pid']}" if owner else "The process", time.monotonic() + STOP_SECONDS
    while not private_sockets.is_free(folder) and door.owner_of(folder) == owner:
        if time.monotonic() > until:
            raise StoreUnavailable(f"{who} has not ended within {STOP_SECONDS:.0f} seconds.")
        time.sleep(door.LOOK_SECONDS)
    screen().print(f"{who} has ended.")


def demo(as_json: AsJson = False) -> None:
    """Watch a memory at work; takes a few seconds.

    A real server, a made-up project, and a memory that is deleted afterwards. Your own is not touched.
    """
    from functools import partial

    import anyio

    from mcp_memory.app import token_counter
    from mcp_memory.entrypoints.cli.demo import STORY, Scene, next_steps, play

    def show_scene(scene: Scene) -> None:
        if not as_json:  # JSON comes in one piece, at the end.
            screen().print(*scene.parts(), sep="\n")

    started = time.perf_counter()
    count = token_counter("o200k_base").count
    scenes = anyio.run(partial(play, STORY, now=datetime.now(UTC), count=count, show=show_scene))
    seconds = time.perf_counter() - started
    if as_json:
        steps = [{"name": each.name, "seconds": each.seconds, "result": each.result} for each in scenes]
        print_json({"seconds": round(seconds, 3), "steps": steps})
    else:
        screen().print(*next_steps(seconds), sep="\n", soft_wrap=True)


@with_options("data_dir", "namespace", "agent", "url")
def hook(
    chosen: Mapping[str, Any],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The event, as Claude Code names it: Stop, …")],
    client: Annotated[str, typer.Option("--client", metavar="CLIENT", help="Whose event it is, as cursor.")] = "",
) -> None:
    """Answer a client's hook: what Claude Code's plugin runs, and what `install --hooks` writes for other clients.

    Reads the hook's JSON and prints what the client takes. Ends in time and with exit code 0, whatever happens.
    """
    from mcp_memory.entrypoints.owner.client_start import run_hook

    run_hook(name, chosen, client)

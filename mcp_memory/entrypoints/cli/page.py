"""The command that opens the page in a browser."""

import signal
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcp_memory.entrypoints.commands.options import local_settings, with_options
from mcp_memory.entrypoints.http.page_server import LINK_LASTS, show_page
from mcp_memory.entrypoints.owner.client_start import ensure_owner
from mcp_memory.errors import NotFound

LOOK_SECONDS: Final = 0.05


@with_options("data_dir", "namespace", "agent")
def ui(
    chosen: Mapping[str, Any],
    context: typer.Context,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="Port; any free one if not given.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", "--no-open", help=f"Open no browser, only print the link. {LINK_LASTS}")
    ] = False,
) -> None:
    """Open the memory in a browser: see it, correct it, ask why something was in a context.

    Serves this machine until Ctrl-C.
    """
    from mcp_memory.entrypoints.page.sign_in import new_link_file
    from mcp_memory.wiring import memory_exists

    settings = local_settings(chosen)
    if not memory_exists(settings):
        raise NotFound(f"No memory at {settings.data_dir} yet; a server makes it, or name another with --data-dir.")
    _end_as_interrupted()
    ensure_owner(str(settings.data_dir), chosen)  # The page would end with another command that holds the memory.
    file = new_link_file(settings.data_dir)
    if not no_browser:
        threading.Thread(target=_open_browser, args=(file,), name="browser", daemon=True).start()
    show_page(context, port=port, link_file=file, gives_file=not no_browser, **chosen)


def _end_as_interrupted() -> None:
    """Let the process end as by Ctrl-C where it is told to, and where its terminal closes."""
    signals = [signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    for number in signals:
        signal.signal(number, lambda _number, _frame: signal.raise_signal(signal.SIGINT))


def _open_browser(file: Path) -> None:
    """Open the file once it is there: beside the main thread, as some browsers end with their last window alone.

    Other users of the machine read the arguments of programs, so the browser is given no link.
    """
    while not file.exists():
        time.sleep(LOOK_SECONDS)
    webbrowser.open(file.as_uri())

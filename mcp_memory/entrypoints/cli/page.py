"""The command that opens the page in a browser."""

import signal
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.entrypoints.commands.options import over_settings
from mcp_memory.errors import NotFound

if TYPE_CHECKING:
    from mcp_memory.settings import Settings


@over_settings("data_dir", "namespace", "agent")
def ui(
    settings: "Settings",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="Port; any free one if not given.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", "--no-open", help="Only print the link; it lets one browser in, once.")
    ] = False,
) -> None:
    """Open the memory in a browser: see it, correct it, ask why something was in a context.

    Serves this machine until Ctrl-C.
    """
    from mcp_memory.entrypoints.http.server import Listening, serve
    from mcp_memory.entrypoints.page.doors import LINK_FOLDER, OneTimeLink
    from mcp_memory.wiring import memory_exists

    if not memory_exists(settings):
        raise NotFound(f"No memory at {settings.data_dir} yet; a server makes it, or name another with --data-dir.")
    link = OneTimeLink(settings.data_dir / LINK_FOLDER)

    def show(address: str) -> None:
        sys.stdout.write(f"The memory is at {link.at(address)}\nThe link works once. End with Ctrl-C.\n")
        sys.stdout.flush()
        if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # The terminal closes.
            signal.signal(signal.SIGHUP, lambda _number, _frame: signal.raise_signal(signal.SIGTERM))
        if no_browser:
            return
        try:
            file = link.file_for(address).as_uri()  # Other users of the machine read arguments of programs.
        except OSError as error:
            sys.stderr.write(f"No browser was opened ({error}). Open the link above.\n")
            sys.stderr.flush()
            return
        # Some browsers end with their last window alone, and signals come to the present thread.
        threading.Thread(target=webbrowser.open, args=(file,), name="browser", daemon=True).start()

    serve(settings, Listening(port=port, link=link), show)

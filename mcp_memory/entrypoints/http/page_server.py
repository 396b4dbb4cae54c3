"""Serves the page of a memory to one browser, in the process that owns the memory."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_memory.entrypoints.commands.console import complain, say, terminal
from mcp_memory.entrypoints.commands.options import opened_existing, over_settings
from mcp_memory.entrypoints.commands.performing import is_served

if TYPE_CHECKING:
    from mcp_memory.settings import Settings

LINK_LASTS = "The link works until this ends."
"""The command says so when it starts, and in its help."""


@over_settings("data_dir", "namespace", "agent", asks=True)
def show_page(settings: "Settings", port: int, link_file: Path, gives_file: bool) -> None:
    """Serve the page until the process that asks for it ends, or is interrupted; say its link, which works as long.

    With `gives_file` the file is written that takes a browser there. Raises InvalidRequest and NotFound.
    """
    from mcp_memory.entrypoints.http.server import Listening, address_of, bind, serve_memory, until_told
    from mcp_memory.entrypoints.page.sign_in import SignInLink

    link, here = SignInLink(link_file), terminal()
    listening = Listening(port=port, link=link)
    with bind(listening) as listener, opened_existing(settings) as memory:
        address = address_of(listener)

        def announce() -> None:
            say(f"The memory is at {link.at(address)}\n{LINK_LASTS} End with Ctrl-C.")
            here.stdout.flush()
            if gives_file:
                try:
                    link.file_for(address)
                except OSError as error:
                    complain(f"No browser was opened ({error}). Open the link above.")
                    here.stderr.flush()

        told = threading.Event() if is_served() else until_told()
        with suppress(KeyboardInterrupt):  # It ends in no other way.
            serve_memory(memory, listening, listener, told, announce, here.check)
        with suppress(OSError):  # The terminal may be gone.
            complain("The page has ended. Run `mcp-memory ui` again to open it.")
            here.stderr.flush()

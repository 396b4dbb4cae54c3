"""The programs that agents run in: where each keeps its list of servers, and how ours is put there and taken out."""

from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client, Places, client_named, places_here
from mcp_memory.entrypoints.clients.changes import Change, Wanted, plan_install, plan_uninstall
from mcp_memory.entrypoints.clients.entries import Start, running_command
from mcp_memory.entrypoints.clients.installations import Installation, has_plugin, installations

__all__ = [
    "CLIENTS",
    "Change",
    "Client",
    "Installation",
    "Places",
    "Start",
    "Wanted",
    "client_named",
    "has_plugin",
    "installations",
    "places_here",
    "plan_install",
    "plan_uninstall",
    "running_command",
]

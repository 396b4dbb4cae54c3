"""Puts our server into the programs that agents run in, and takes it out again."""

from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client, Places, client_named, places_here
from mcp_memory.entrypoints.clients.entries import (
    Change,
    Installation,
    Start,
    Wanted,
    has_plugin,
    installations,
    plan_install,
    plan_uninstall,
    running_command,
)

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

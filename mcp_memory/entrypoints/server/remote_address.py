"""The address of a memory over HTTP: how it is reached, and the headers that say who sends a request."""

from typing import TYPE_CHECKING, TypedDict
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from mcp_memory.settings import Settings


class ConnectionOptions(TypedDict):
    """Options of the library's clients."""

    verify: bool
    trust_env: bool


def endpoint(url: str) -> str:
    """Return the address that messages go to: the address as it is, or its /mcp where it names a server alone."""
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/mcp"


def headers_for(settings: "Settings") -> dict[str, str]:
    """Return the headers of every request: its token, and the namespace where one was chosen."""
    headers: dict[str, str] = {}
    if settings.token and (secret := settings.token.get_secret_value().strip()):
        headers["authorization"] = f"Bearer {secret}"
    if settings.namespace is not None:  # What the folder says it is stays here: the server cannot know if it is true.
        headers["mcp-memory-namespace"] = quote(settings.namespace, safe="/.~")
    return headers


def connection_options(url: str) -> ConnectionOptions:
    """Return how a client of the library connects to this address."""
    is_encrypted = urlsplit(url).scheme == "https"  # Without it, certificates need not be read, which takes a while.
    # A proxy that the environment names leads elsewhere than to this machine, and would be told the token.
    return {"verify": is_encrypted, "trust_env": not is_near(url)}


def is_near(url: str) -> bool:
    """Return True for an address of this machine."""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")

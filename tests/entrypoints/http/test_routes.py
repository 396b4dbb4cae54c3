"""docs/http.md names the routes of the server."""

import re
from pathlib import Path

from starlette.routing import Route

from mcp_memory.app import App
from mcp_memory.entrypoints.http.issued_tokens import issuer_for
from mcp_memory.entrypoints.http.request_checks import transport_security
from mcp_memory.entrypoints.http.server import _protocol  # pyright: ignore[reportPrivateUsage]
from mcp_memory.entrypoints.page.sign_in import PAGE_PATH, Doors, PageSessions
from mcp_memory.entrypoints.page.site import Site

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text("utf-8")
PARAMETER_TYPE = re.compile(r":\w+(?=\})")
"""`{id:path}`, a session's name with its slashes: the page writes `{id}`."""
ISSUER, AUDIENCE = "https://id.example.com/realms/acme", "https://memory.example.com/mcp"


def test_every_route_of_the_server_is_in_the_documents(app: App) -> None:
    """X6.1, U3.2: with an issuer; on the page a form's route stands behind what it belongs to."""
    issuer = issuer_for(app.settings.model_copy(update={"oauth_issuer": ISSUER, "oauth_audience": AUDIENCE}))
    doors = Doors(app, PageSessions(), lambda _: False, None)
    web = _protocol(app, transport_security("127.0.0.1", ()), issuer)
    routes = [PARAMETER_TYPE.sub("", each.path) for each in web.routes if isinstance(each, Route)]
    screens = [PARAMETER_TYPE.sub("", each.path).removeprefix(PAGE_PATH) for each in Site(app, doors, 1.0).routes()]
    assert (len(routes), len(screens) > 50) == (5, True)
    assert [each for each in [*routes, PAGE_PATH] if f"`{each}`" not in PAGE] == []
    for screen in screens:
        form = re.sub(r"^/(record|task)/\{id\}", "", screen)
        assert screen in ("", "/{rest}") or f"`{screen}`" in PAGE or f"`{form}`" in PAGE, screen

"""Reads what a request carries: its address, where it came from, and a form that a page of its session holds."""

from __future__ import annotations

import hmac
import re
from typing import Final
from urllib.parse import parse_qsl

from anyio import fail_after
from starlette.requests import Request

from mcp_memory.entrypoints.page.doors import PAGE_PATH, Visitor
from mcp_memory.entrypoints.page.visits import Fields, safe_path

MOST_FIELDS: Final = 2_000
_CSRF: Final = re.compile(rb"(?:^|&)csrf=([0-9a-f]{64})(?:&|$)")


class Rejected(Exception):
    """A request that is not served, with the status of its answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def form_body(request: Request, most: int, seconds: float) -> bytes:
    """Read a form that a page of ours sent, of at most so many bytes. Raises Rejected."""
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none"):
        raise Rejected(403, "Only the memory's own pages may send this.")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Rejected(400, "Send the form from the page.")
    return await _read(request, most, seconds)


async def _read(request: Request, most: int, seconds: float) -> bytes:
    """Read a body of at most so many bytes. Raises Rejected."""
    too_large = Rejected(413, f"The form is larger than {most // 1024:,} KiB; send less at once.")
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and int(declared) > most:
        raise too_large
    body = bytearray()
    try:
        with fail_after(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise Rejected(408, f"The form did not arrive in {seconds:g} seconds; send it again.") from None
    return bytes(body)


def fields_of(encoded: bytes) -> Fields:
    """Return the fields of an address or a form. Raises Rejected where they are too many."""
    try:
        fields = parse_qsl(encoded.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Rejected(400, "These are too many fields at once.") from None
    found: dict[str, list[str]] = {}
    for name, value in fields:
        if name:
            found.setdefault(name, []).append(value)
    return found


def checked_form(body: bytes, visitor: Visitor) -> Fields:
    """Return the fields of a form that a page of this session holds; of another, decode nothing. Raises Rejected."""
    given = _CSRF.search(body)
    if not given or not hmac.compare_digest(given[1], visitor.form_token.encode()):
        raise Rejected(403, "This form belongs to another session; load the page again.")
    return fields_of(body)


def came_from(request: Request) -> str:
    """Return the page of ours that led here, as a path below ours; "" for any other, and for this one."""
    origin = f"//{request.url.netloc}{PAGE_PATH}/"  # The scheme is the proxy's, if there is one.
    _, _, path = request.headers.get("referer", "").partition(":")
    if not path.startswith(origin):
        return ""
    here = safe_path(f"/{path.removeprefix(origin)}")
    return "" if here == "/" or here.partition("?")[0] == request.url.path.removeprefix(PAGE_PATH) else here

"""Commands for the tokens by which agents come in over HTTP: add, list, revoke."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.grants import RIGHTS, Grant
from mcp_memory.domain.model.records import Json
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.cli.console import errors_in_one_line, print_json, screen, visible
from mcp_memory.entrypoints.cli.options import AsJson, DataDir, opened, opened_existing, settings_for
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.ports.access import Token

DAY_SECONDS = 86_400.0
tokens = typer.Typer(name="tokens", no_args_is_help=True, help="Who may come in over HTTP: add, list, revoke tokens.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the token is called in lists.")]


@tokens.command()
@errors_in_one_line()
def add(
    context: typer.Context,
    name: Name,
    agent: Annotated[str, typer.Option(metavar="NAME", help="In whose name it speaks; one that no other agent has.")],
    namespace: Annotated[
        list[str], typer.Option(metavar="NAME", help="A project it reads and writes; repeatable, the first is default.")
    ],
    right: Annotated[
        str, typer.Option(metavar="RIGHT", help="read, write (and change), or admin (also erase, and see figures).")
    ] = "write",
    person: Annotated[
        str, typer.Option(metavar="NAME", help="Whom the agent works for; whose preferences it keeps. Else the agent.")
    ] = "",
    days: Annotated[
        float | None, typer.Option(metavar="N", min=0, help="How long it is valid; for ever if not given.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. Its secret is shown this once, and stored nowhere."""
    if right not in RIGHTS:
        raise InvalidRequest(f"There is no right {right!r}; the rights are {', '.join(RIGHTS)}.")
    settings = settings_for(context, data_dir, None, None)
    if agent == settings.agent:
        raise InvalidRequest(f"{agent!r} is what the agents of this machine are called; choose another for the token.")
    grant = Grant(agent=agent, person=person, namespaces=tuple(namespace), right=right)
    expires_at = None if days is None else time.time() + days * DAY_SECONDS
    with opened(settings) as memory:
        secret, token = memory.tokens.add(name, grant, expires_at)
    if as_json:
        print_json({**_shown(token, token.created_at), "secret": secret})
    else:
        screen().print(secret, soft_wrap=True)
        screen(on_stderr=True).print(
            "That is the secret, shown this once: set it as MCP_MEMORY_TOKEN, or send it as `Authorization: Bearer …`."
        )


@tokens.command("list")
@errors_in_one_line()
def list_tokens(context: typer.Context, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the tokens, revoked and expired ones too; never a secret."""
    with opened_existing(settings_for(context, data_dir, None, None)) as memory:
        known = [_shown(token, time.time()) for token in memory.tokens.all()]
    if as_json:
        return print_json(known)
    if not known:
        return screen().print("No tokens yet; `mcp-memory tokens add` makes one.")
    from mcp_memory.entrypoints.cli.screens import token_lines

    return screen().print(*token_lines(known), sep="\n", soft_wrap=True)


@tokens.command()
@errors_in_one_line()
def revoke(context: typer.Context, name: Name, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """End a token, from its next request on. Its name is free again."""
    with opened_existing(settings_for(context, data_dir, None, None)) as memory:
        memory.tokens.revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        screen().print(visible(f"Token {name} is revoked."))


def _shown(token: "Token", now: float) -> dict[str, Json]:
    state = "valid" if token.is_valid(now) else "revoked" if token.revoked_at is not None else "expired"
    return {
        "name": token.name,
        "id": token.id,
        "state": state,
        "right": token.grant.right,
        "agent": token.grant.agent,
        "person": token.grant.person,
        "namespaces": list(token.grant.namespaces),
        "created_at": iso(token.created_at),
        "expires_at": None if token.expires_at is None else iso(token.expires_at),
        "revoked_at": None if token.revoked_at is None else iso(token.revoked_at),
    }

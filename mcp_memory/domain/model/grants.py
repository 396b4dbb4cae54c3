"""What the holder of a token may do, and as whom. Knows neither secrets nor how one is presented."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import InvalidRequest

Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""From the least on: each includes those before it. `write` stores and changes; only `admin` destroys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Binds who holds a token to an agent, the person it works for, namespaces and a right.

    The first namespace is the one that is meant where none is named.
    """

    agent: str
    person: str
    namespaces: tuple[str, ...]
    right: Right

    def require(self, right: Right) -> None:
        """Raises InvalidRequest where the right is missing; the message names it."""
        if RIGHTS.index(right) > RIGHTS.index(self.right):
            raise InvalidRequest(
                f"This takes the right {right!r}; your token has {self.right!r}. Ask who runs the server for a token"
                " that has it."
            )

    def namespace(self, wanted: str | None) -> str:
        """The namespace that is meant; None or '' is the default. Raises InvalidRequest for any but the token's."""
        if wanted and wanted not in self.namespaces:
            raise InvalidRequest(f"Your token does not hold that namespace; it holds {', '.join(self.namespaces)}.")
        return wanted or self.namespaces[0]

    def caller(self, namespace: str, session_id: str, inherited: Collection[str], client: str = "") -> Caller:
        """Who asks with this token in one of its namespaces, reading only those of the inherited ones that it holds."""
        also = tuple(name for name in inherited if name in self.namespaces and name != namespace)
        return Caller(
            namespace=namespace,
            agent=self.agent,
            session_id=session_id,
            inherited=also,
            client=client,
            person=self.person,
        )

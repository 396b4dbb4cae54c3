"""The agents that a project knows: those that wrote records here, hold a token for it, or have a task in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_memory.domain.model.requests import RecallRequest
from mcp_memory.entrypoints.page.visits import Visit
from mcp_memory.ports.access import Token

AGENTS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAgent:
    """An agent that is known here: its person, the records that it wrote, and its valid tokens."""

    name: str
    person: str
    records: int
    tokens: int


def agents_here(visit: Visit, tokens: Sequence[Token]) -> Sequence[KnownAgent]:
    """Return the agents that wrote something here, the busiest first, and those that have a token."""
    wrote = _wrote(visit)
    valid = [token.grant for token in tokens if token.is_valid(visit.now)]
    persons = {token.grant.agent: token.grant.person for token in tokens}
    return [
        KnownAgent(
            name=name,
            person=persons.get(name, ""),
            records=wrote.get(name, 0),
            tokens=sum(1 for grant in valid if grant.agent == name),
        )
        for name in dict.fromkeys([*wrote, *sorted(persons)])
    ]


def known_agents(visit: Visit) -> Sequence[str]:
    """Return the agents to choose from: the busiest writers, then those of tokens, then those of tasks."""
    worked = sorted({each.agent for each in visit.app.tasks.tree(visit.caller)})
    return [*dict.fromkeys([*_wrote(visit), *_of_tokens(visit), visit.caller.agent, *worked])][:AGENTS_SHOWN]


def is_known(visit: Visit, agent: str) -> bool:
    """Return True for an agent that wrote here, holds a valid token for the project, or has a task in it."""
    if agent in {visit.caller.agent, visit.app.settings.agent, *_of_tokens(visit)}:
        return True
    if any(each.agent == agent for each in visit.app.tasks.tree(visit.caller)):
        return True
    return agent in _wrote(visit, authors=(agent,))


def _wrote(visit: Visit, authors: tuple[str, ...] = ()) -> Mapping[str, int]:
    """Return the agents that wrote most here, or those of them, the busiest first, with the number of their records."""
    return visit.app.facets(RecallRequest(authors=authors, include_inactive=True), visit.caller, "author")["author"]


def _of_tokens(visit: Visit) -> Sequence[str]:
    grants = [token.grant for token in visit.app.tokens.all() if token.is_valid(visit.now)]
    return sorted({grant.agent for grant in grants if visit.caller.namespace in grant.namespaces})

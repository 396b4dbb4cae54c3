"""Says who stored what is shown: the reader's own goes unnamed, another agent's name is shown short and safely."""

import hashlib
import re
from functools import cache

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.look_alikes import folded
from mcp_memory.domain.text.prompt_safety import readable

NAME_CHARACTERS = 32
"""Of a longer name so many are shown, with a digest of the whole."""
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]| (?=[A-Za-z0-9]))*")
_LOOKS_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{6}")
_NOT_A_LETTER = re.compile(r"[^\w.@+-]+")
_TAKEN = frozenset(
    "i me my myself you your yourself self us we owner user human person system developer assistant tool admin root"
    " memory mcp-memory by nobody unknown".split()
)
"""Names that would say of a record who vouches for it, rather than which agent stored it."""


def is_own(record: Record, caller: Caller) -> bool:
    """True for what the caller's agent stored, and for its person's own, which any agent of that person may store."""
    return record.agent == caller.agent or record.visibility == "user"


def author(agent: str, caller: Caller) -> str:
    """The name to show beside what an agent stored; "" where that is the caller."""
    return "" if agent == caller.agent else shown_name(agent, beside=caller.agent)


def by(name: str) -> str:
    """What stands behind an id for an author: ` by NAME`; "" for the reader's own."""
    return f" by {name}" if name else ""


def shown_name(agent: str, *, beside: str = "") -> str:
    """An agent's name in at most NAME_CHARACTERS, as it is where it is plain.

    Any other, one that says more than a name, and one that looks like the name `beside` which it stands, ends in a
    digest, so that no two agents are shown alike.
    """
    words = set(re.split(r"[ ._@+-]", agent.casefold()))
    is_plain = _PLAIN.fullmatch(agent) and len(agent) <= NAME_CHARACTERS and not _LOOKS_LIKE_A_DIGEST.search(agent[-7:])
    if is_plain and not set(map(_shape, words)) & _taken_shapes() and _shape(agent) != _shape(beside):
        return agent
    digest = hashlib.blake2b(agent.encode("utf-8", "replace"), digest_size=3).hexdigest()
    plain = _NOT_A_LETTER.sub("_", readable(agent[: 4 * NAME_CHARACTERS])).strip("_")[: NAME_CHARACTERS - 7]
    return f"{plain}-{digest}" if plain else f"agent-{digest}"


@cache
def _taken_shapes() -> frozenset[str]:
    return frozenset(map(_shape, _TAKEN))


def _shape(name: str) -> str:
    """What a name looks like at a glance."""
    return folded(name).translate(str.maketrans("1i|0", "lllo")).replace("rn", "m").replace("vv", "w").strip()

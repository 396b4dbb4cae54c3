"""Scopes decide who may read a record: scope keys, the reader's view, and the filter every query carries."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Annotated, Any, Literal, TypeVar, get_args

from mcp_memory.domain.model.field_marks import Compares
from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import LOG_KINDS, Instant, Kind, Status, Visibility
from mcp_memory.errors import InvalidRequest

USER_SCOPE = "user"
_Thing = TypeVar("_Thing")
ISOLATED_KINDS: frozenset[Kind] = frozenset({"episode", *LOG_KINDS})
"""Kinds that record events inside a task. Its result replaces them once it is finished; lasting kinds stay visible."""


def scope_key(visibility: Visibility, namespace: str, agent: str, person: str = "") -> str:
    """Return the key under which a record is isolated. Agent names hold no '/', so keys never collide.

    An empty person is the owner of the machine's memory.
    """
    if visibility == "user":
        return f"{USER_SCOPE}/{person}" if person else USER_SCOPE
    if visibility == "private":
        return f"private/{agent}/{namespace}"
    return f"shared/{namespace}"


def partition_of(scope: str) -> str:
    """Return the partition of a scope, whose changes follow each other: its namespace, or a person's own scope.

    e.g. "namespace/web" for "shared/web" and "private/ann/web", and "user/bob" for itself.
    """
    visibility, slash, rest = scope.partition("/")
    if visibility == "private":
        return f"namespace/{rest.split('/', 1)[-1]}"
    return f"namespace/{rest}" if visibility == "shared" and slash else scope


def partitions_of(scopes: Iterable[str]) -> frozenset[str]:
    """Return the partitions of scopes."""
    return frozenset(map(partition_of, scopes))


def by_partition(things: Iterable[_Thing], scope_of: Callable[[_Thing], str]) -> Mapping[str, Sequence[_Thing]]:
    """Return things by the partition of the scope that each is in, in their order."""
    parts: dict[str, list[_Thing]] = {}
    for thing in things:
        parts.setdefault(partition_of(scope_of(thing)), []).append(thing)
    return parts


def session_key(agent: str, session_id: str | None) -> str:
    """Return the key of an agent's session: another agent may use the same id."""
    return f"{agent}/{session_id}"


@dataclass(slots=True, kw_only=True)
class RepeatableCall:
    """A call that changes something, and may be asked again where its answer is lost.

    `key` names it among all calls of a day, and `digest` tells another request under the same key. `is_noted` is True
    once its first effect is committed: whatever it writes then belongs to it.
    """

    key: str
    digest: bytes
    is_noted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller: the namespace and agent of the process or of a token, and the session.

    `person` is the one the agent works for; "" is the owner of the machine's memory. `named_session` is True where a
    person or a call chose the session's name. A session named by the process itself only labels records. `window` is
    the place in the task tree that its window holds, "" the agent's own. `knows` are the namespaces of which it may
    learn that they exist, None means all. `max_tokens` is the budget of its contexts where the call names none, and
    `token_factor` its client's tokens per counted token; 0 leaves either to the memory. `renamed_at` is the rename that
    the caller knows: another project had the namespace's name until then. After any other rename the caller writes
    nothing. `call` is what it asks for at present, where that may be asked again.
    """

    namespace: str
    agent: str
    session_id: str
    named_session: bool = False
    window: str = ""
    inherited: tuple[str, ...] = ()
    client: str = ""
    person: str = ""
    knows: tuple[str, ...] | None = ()
    is_admin: bool = False
    max_tokens: int = 0
    token_factor: float = 0.0
    renamed_at: Instant | None = None
    call: RepeatableCall | None = field(default=None, compare=False)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Every scope this caller may read: its own, its private part, its person's, then inherited namespaces."""
        return (*self.own_scopes, *(scope_key("shared", name, self.agent) for name in self.inherited))

    @property
    def own_scopes(self) -> tuple[str, ...]:
        """The scopes in which it may change records: its own, its private part, and its person's."""
        return self.scope("shared"), self.scope("private"), self.scope("user")

    @property
    def place(self) -> str:
        """The key of its place in the task tree: of the session it named, else of its window."""
        return self.session_id if self.named_session else self.window

    def scope(self, visibility: Visibility) -> str:
        """Return the scope of this caller's records."""
        return scope_key(visibility, self.namespace, self.agent, self.person)

    def in_session(self, session_id: str | None) -> "Caller":
        """Return the same caller in the session you name; None or '' keeps the present one."""
        return replace(self, session_id=session_id, named_session=True) if session_id else self


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """The records that a query may see.

    Scopes and hidden branches always apply. Each other field narrows; an empty set means any. Records of
    `ISOLATED_KINDS` in `isolated_tasks` do not pass. With `noted_in`, a `session_key`, neither does what is noted in
    any other session; with `NO_SESSION`, nothing that is noted. `own_of` names an agent: its records pass, and so do
    its person's own. `authors` are the agents that wrote the present texts, `event_types` are in the details of events:
    no other kind has one. A record passes with any of `tags`, with each of `all_tags` and with none of `without_tags`.
    With `session_id` what was stored in a session passes, and what its log has in common with another one's. Of
    `statuses`, those out of search pass with `include_inactive` alone.
    """

    scopes: tuple[str, ...]
    kinds: Annotated[frozenset[Kind], Compares("kind", "any of")] = frozenset()
    event_types: Annotated[frozenset[str], Compares("event_type", "any of")] = frozenset()
    tags: frozenset[str] = frozenset()
    all_tags: frozenset[str] = frozenset()
    without_tags: frozenset[str] = frozenset()
    authors: Annotated[frozenset[str], Compares("author", "any of")] = frozenset()
    statuses: Annotated[frozenset[Status], Compares("status", "any of")] = frozenset()
    entities: frozenset[str] = frozenset()
    entity_types: frozenset[str] = frozenset()
    since: Annotated[Instant | None, Compares("occurred_at", "from")] = None
    until: Annotated[Instant | None, Compares("occurred_at", "before")] = None
    task_id: Annotated[str | None, Compares("task_id", "equal")] = None
    session_id: str | None = None
    own_of: str = ""
    pinned: bool = False
    include_inactive: bool = False
    hidden_branches: Annotated[frozenset[str], Compares("branch_id", "none of")] = frozenset()
    noted_in: str = ""
    isolated_tasks: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    passing: RecordSet | None = None
    """The records that pass the whole filter, where already computed; it narrows nothing by itself."""

    @property
    def in_use(self) -> list[str]:
        """The names of the fields beside the scopes that say something."""
        return [name for name, unused in _UNUSED.items() if (value := getattr(self, name)) != unused and value != ""]

    @property
    def is_selective(self) -> bool:
        """True where it narrows beyond what every query hides: then a search runs over exactly the rows that pass."""
        return not _BROAD.issuperset(self.in_use)

    def admits(self, tags: Collection[str]) -> bool:
        """Return True where a record with these tags passes the three conditions about tags."""
        is_any = not self.tags or not self.tags.isdisjoint(tags)
        return is_any and self.all_tags.issubset(tags) and self.without_tags.isdisjoint(tags)


_UNUSED: Mapping[str, object] = {each.name: each.default for each in fields(RecordFilter) if each.name != "scopes"}
NO_SESSION = "-"
"""As `noted_in`, no `session_key`: what is noted passes nowhere, as in contexts."""
_BROAD = frozenset({"hidden_branches", "noted_in", "exclude", "passing"})
"""Fields by which nearly every record passes, and the result that is computed already."""
_SIGNS = {"+": "all_tags", "-": "without_tags"}
_PHRASES = frozenset({"since", "until"})
"""Times, which a request gives in words."""


def filtered_by(where: RecordFilter, request: Any) -> RecordFilter:
    """Return the filter with all that a request gives under the names of the filter's fields, but times."""
    asked: dict[str, Any] = {}
    for name in {each.name for each in fields(request)} & _UNUSED.keys() - _PHRASES:
        value = getattr(request, name)
        asked[name] = frozenset(value) if isinstance(_UNUSED[name], frozenset) else value
    return replace(where, **asked | tags_asked(asked.get("tags", ())))


def tags_asked(tags: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a filter for tags as a request gives them: any of the plain, each +tag, and no -tag.

    A tag that begins with such a sign itself takes one more: "+-1" asks for the tag "-1".
    """
    asked: dict[str, set[str]] = {"tags": set(), "all_tags": set(), "without_tags": set()}
    for tag in tags:
        name = _SIGNS.get(tag[0], "tags") if len(tag) > 1 else "tags"
        asked[name].add(tag if name == "tags" else tag[1:])
    return {name: frozenset(each) for name, each in asked.items()}


def narrowed(where: RecordFilter, span: tuple[Instant, Instant]) -> RecordFilter:
    """Return the filter with its times narrowed to a span [start, end), which may be open on either side."""
    begin = span[0] if where.since is None else max(where.since, span[0])
    end = span[1] if where.until is None else min(where.until, span[1])
    return replace(where, since=None if begin == -inf else begin, until=None if end == inf else end, passing=None)


Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""Rights in ascending order: each includes those before it. `write` stores and changes; only `admin` destroys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Binds a token's holder to an agent, the person it works for, namespaces and a right.

    The first namespace is the default.
    """

    agent: str
    person: str
    namespaces: tuple[str, ...]
    right: Right

    def require(self, right: Right) -> None:
        """Raise InvalidRequest where the right is missing; the message names it."""
        if RIGHTS.index(right) > RIGHTS.index(self.right):
            raise InvalidRequest(
                f"This takes the right {right!r}; your token has {self.right!r}. Ask who runs the server for a token"
                " that has it."
            )

    def namespace(self, wanted: str | None) -> str:
        """Return the wanted namespace; None or '' gives the default. Raises InvalidRequest for any but the token's."""
        if wanted and wanted not in self.namespaces:
            raise InvalidRequest(f"Your token does not hold that namespace; it holds {', '.join(self.namespaces)}.")
        return wanted or self.namespaces[0]

    def caller(self, namespace: str, session_id: str, inherited: Collection[str], client: str = "") -> Caller:
        """Return the caller with this token in a namespace; it reads only the inherited ones that the token holds."""
        also = tuple(name for name in inherited if name in self.namespaces and name != namespace)
        return Caller(
            namespace=namespace,
            agent=self.agent,
            session_id=session_id,
            inherited=also,
            client=client,
            person=self.person,
            knows=self.namespaces,
            is_admin=self.right == "admin",
        )

"""What is stored where the asker looks, and where it must not look."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcp_memory.domain.model.records import KINDS, Details, Entity, Kind, NewRecord, Relation, Visibility
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.scopes.worlds import Pair, Who, World
from tests.services.sessions.conversations import session

SUBJECT = "The payment service is deployed with"
TAG = "deploy"
ENTITY = "payment service"
OUTPUT_LINES, WINDOW = 12, 400
"""Of a session's tools, and the tokens that it is compacted into."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where somebody stores what the asker does not see, in words that nobody else says."""

    word: str
    caller: Caller
    visibility: Visibility
    kinds: Sequence[Kind] = KINDS
    has_tasks: bool = True
    """False in the asker's own namespace and the inherited one, where everybody reads what tasks came to."""


def _caller(namespace: str, agent: str, session: str = "day") -> Caller:
    # The asker's own session has the same name: a name says nothing.
    return Caller(namespace=namespace, agent=agent, session_id=session, named_session=True)


BOB = _caller("here", "bob")
LIBRARIAN = _caller("library", "lib")
_FEW: Sequence[Kind] = ("fact", "decision", "censor", "identity")
"""In projects of which another one has records of every kind."""
_PLACES = (
    Place(word="zebra", caller=_caller("there", "zoe"), visibility="shared"),
    Place(word="yeti", caller=_caller("there", "zoe"), visibility="private", kinds=_FEW),
    Place(word="xylem", caller=_caller("there", "ann"), visibility="private", kinds=_FEW),
    Place(word="walrus", caller=_caller("Here", "ann"), visibility="shared", kinds=_FEW),
    Place(word="vicuna", caller=_caller("her_", "ann"), visibility="shared", kinds=_FEW),
    Place(word="urchin", caller=_caller("here/library", "ann"), visibility="private", kinds=_FEW),
    Place(word="tapir", caller=LIBRARIAN, visibility="private", has_tasks=False),
    Place(word="serval", caller=_caller("library", "ann"), visibility="private", has_tasks=False),
    Place(word="raccoon", caller=BOB, visibility="private", has_tasks=False),
    Place(word="quagga", caller=_caller("here", "carol", "carols"), visibility="private", has_tasks=False),
)
"""Other projects, also of names that look like the asker's; its own agent's name elsewhere; colleagues' and an
inherited project's private parts."""
_OF_OTHERS = Place(word="numbat", caller=replace(_caller("there", "max"), person="max"), visibility="user")
_OF_THE_OWNER = Place(word="ocelot", caller=_caller("there", "zoe"), visibility="user", kinds=_FEW)
SECRETS = tuple(place.word for place in (*_PLACES, _OF_OTHERS, _OF_THE_OWNER))


def places_beside(who: Who) -> Sequence[Place]:
    """Where the asker sees nothing: what is the owner's own is seen by the owner's own agents."""
    return (*_PLACES, _OF_OTHERS, *((_OF_THE_OWNER,) if who.person else ()))


def items_of(word: str, visibility: Visibility, kinds: Sequence[Kind] = KINDS) -> list[NewRecord]:
    """A record of every kind, as near to what is asked for as can be, and heavier than anything else."""
    return [
        NewRecord(
            text=f"{SUBJECT} {word} by the {kind} rule.",
            kind=kind,
            importance=10.0,
            tags=(TAG, f"tag{word}"),
            entities=(Entity(name=ENTITY, type="service", properties={"needs": word}), Entity(name=f"Entity {word}")),
            relations=(Relation(source=ENTITY, type="uses", target=f"Entity {word}"),),
            outcome="success" if kind in ("decision", "procedure") else None,
            details=_details(kind, word),
            pinned=kind in ("fact", "identity"),
            visibility=visibility,
            role="user" if kind == "message" else None,
            tool="deploy" if kind in ("tool_call", "tool_result") else None,
            call_id=f"call{word}" if kind in ("tool_call", "tool_result") else None,
        )
        for kind in kinds
    ]


def _details(kind: Kind, word: str) -> Details:
    if kind == "procedure":
        return {"name": f"deploy with {word}", "description": "how to deploy the payment service"}
    if kind == "censor":
        return {"trigger": "deploy payment", "reason": f"{word} breaks", "action": "block"}
    return {"reasons": [f"{word} is quick"]} if kind == "decision" else {}


@dataclass(kw_only=True)
class Found:
    """The ids of what is foreign."""

    records: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    contexts: list[str] = field(default_factory=list[str])
    entries: list[str] = field(default_factory=list[str])
    """What stands in sessions' logs for what was compacted."""
    one_a_place: list[str] = field(default_factory=list[str])
    """One of the records of each place: of other kinds, and corrected, superseded, retired or none of these."""

    @property
    def all(self) -> list[str]:
        return [*self.records, *self.tasks, *self.contexts, *self.entries]


def plant(pair: Pair, turns: int = 2) -> Found:
    """Fill both memories with what the asker may see, and the one with the rest, in turns.

    Returns what can be named of what is foreign.
    """
    found = Found()

    def own(world: World) -> None:
        app, me = world.app, world.me
        oaks = app.remember(items_of("oak", "shared"), me, advise=False)
        app.reviews.queue([("contradictions", [each.id for each in oaks[:2]], "The first may contradict.")], me)
        app.remember(items_of("ash", "private", ("fact", "decision", "message")), me, advise=False)
        app.remember(items_of("elm", "user", ("fact", "identity")), me, advise=False)
        app.remember(items_of("fir", "shared", ("fact", "procedure")), LIBRARIAN, advise=False)
        app.remember(items_of("yew", "shared", ("fact", "censor", "message")), BOB, advise=False)

    def own_work(world: World) -> None:
        app, me = world.app, world.me
        app.tasks.push(PushRequest(goal="Deploy the payment service", plan=("Test it", "Roll it out")), me)
        app.tasks.push(PushRequest(goal="Look for other ways", branch=True), BOB)
        app.feed(session(turns, output_lines=OUTPUT_LINES), me)
        app.compact(CompactRequest(window=WINDOW, force=True), me)
        app.assemble_context(ContextRequest(query="deploy the payment service"), me)

    pair.in_both(own)
    places = places_beside(pair.full.who)
    for place in places:
        pair.elsewhere(lambda world, place=place: store(world, place, found))
    pair.in_both(own_work)
    for place in places:
        pair.elsewhere(lambda world, place=place: work(world, place, turns, found))
    pair.in_both(embed_all)
    pair.later(3_600)
    return found


def store(world: World, place: Place, found: Found) -> None:
    """Records of its kinds, one of them corrected, one retired, one superseded; two wait for a review."""
    app, caller = world.app, place.caller
    items = items_of(place.word, place.visibility, place.kinds)
    ids = [each.id for each in app.remember(items, caller, advise=False)]
    app.revise(Revision(id=ids[0], text=f"{SUBJECT} corrected {place.word}.", importance=10.0), caller)
    newer = NewRecord(text=f"{SUBJECT} newer {place.word}.", supersedes=(ids[1],), visibility=place.visibility)
    ids += [each.id for each in app.remember([newer], caller, advise=False)]
    app.forget([ids[2]], "retire", caller)
    app.reviews.queue([("duplicates", [ids[0], ids[-1]], f"Both say {place.word}.")], caller)
    found.records += ids
    found.one_a_place.append(ids[len(found.one_a_place) % len(ids)])


def work(world: World, place: Place, turns: int, found: Found) -> None:
    """A tree of tasks, a session's log that is compacted, a context, and records opened."""
    app, caller, word = world.app, place.caller, place.word
    tasks: list[str] = []
    if place.has_tasks:
        stack = app.tasks.push(PushRequest(goal=f"Deploy the payment {word}", plan=(f"Plan {word}",)), caller)
        app.tasks.push(PushRequest(goal=f"Try {word}"), caller)
        app.tasks.pop(PopRequest(result=f"Got {word}", artifacts=(f"{word}.txt",)), caller)
        app.tasks.push(PushRequest(goal=f"Branch {word}", branch=True), caller)
        app.remember(items_of(f"branched {word}", place.visibility, ("fact",)), caller, advise=False)
        tasks = [task.id for task in app.tasks.tree(caller) if task.id >= stack.path[-1].id]
    told = [
        replace(each, text=f"{each.text} {word}", visibility=place.visibility)
        for each in session(turns, output_lines=OUTPUT_LINES)
    ]
    app.feed(told, caller)
    app.compact(CompactRequest(window=WINDOW, force=True), caller)
    context = app.assemble_context(ContextRequest(query="deploy the payment service"), caller)
    app.recall(RecallRequest(query=f"payment service {word}", detail="full"), caller)
    entries = [each.entry.id for each in app.logs.stand_ins(caller)]
    assert word in context.text
    assert entries
    found.tasks += tasks
    found.contexts.append(context.report.id)
    found.entries += entries
    found.records += [entry.id for entry in app.logs.said(caller)][:3]


def embed_all(world: World) -> None:
    """What a server does by and by."""
    while world.app.reindex.catch_up():
        pass

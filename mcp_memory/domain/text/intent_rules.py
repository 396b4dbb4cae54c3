"""The words by which a query shows what it wants. Data alone; domain/text/intent.py looks them up.

A cue is a word, or some in a row; `*` stands for up to six words between. It holds in every inflection.
"""

from dataclasses import dataclass

FIX = ("fix", "error", "bug", "bugfix", "debug", "crash", "fail", "failure", "exception", "broken")
EXPLAIN = (
    "explain", "explanation", "how do", "how does", "how did", "what is", "what are", "what was", "what were",
    "what s", "why",
)  # fmt: skip
INFORMING = ("explain", "explanation", "tell me", "show me")

ASKING = frozenset(
    "how what when where which who whom whose why is are was were do does did can could have has".split()
)
"""A query that begins with one of these asks something, with or without its question mark."""
REQUESTING = frozenset({"can you", "could you", "will you", "would you"})
"""These tell to do something, in the form of a question."""

TURN_WORDS = frozenset(
    """again ahead bye carry clear continue correct else exactly fine first forget forgot go good great hello hey hi
    hmm last like lot mean meant more next nice no nope ok okay on one ones perfect right said same say second
    something sorry sound sounds stop sure thank thanks thing third true try undo wait wrong yeah yep yes""".split()
)
"""A turn of these and of stop words alone names no subject: it has that from the turn before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What speaks for a strategy: one of the cues, or a word of `beside` in the same query as one of `words`.

    told: it holds only for what tells to do something, not for what asks: "Write a post" against "Who wrote the post?"
    """

    strategy: str
    reason: str
    cues: tuple[str, ...]
    words: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    told: bool = False


RULES = (
    Rule(
        strategy="recent",
        reason="it leans on the turn before",
        cues=("just said", "did you just", "just now", "your last answer", "your last message", "my last message"),
    ),
    Rule(
        strategy="support",
        reason="somebody is to be helped",
        cues=(
            "complaint", "helpdesk", "help desk", "refund", "support request", "ticket", "warranty", "wrote in",
            "escalate * case", "help the user", "help a user", "user ask", "user cannot", "user can t", "user complain",
            "user report that", "user say", "user want", "customer can t", "client can t",
        ),
        words=frozenset({"customer", "client", "subscriber", "buyer"}),
        beside=frozenset(
            """angry answer ask bill cancel cannot charge complain email lock need question reply report respond say
            unhappy upset want write wrote""".split()
        ),
    ),
    Rule(
        strategy="conversation",
        reason="it is about what was said",
        cues=(
            "did * say", "did * tell", "did * mention", "said about", "told me", "told us", "talk about", "talk of",
            "i discuss", "we discuss", "do you remember", "remember when", "remind me what", "last time we", "promise",
        ),
    ),
    Rule(
        strategy="important",
        reason="a question of direction",
        cues=(
            "strategy", "strategic", "vision", "mission", "principle", "purpose of", "our goal", "main goal",
            "key goal", "our objective", "main objective", "key objective", "most important", "matter most", "focus on",
            "priority", "prioritise", "prioritize", "long run", "long term", "next year", "big picture", "big risk",
            "biggest risk", "main risk", "north star", "right track", "right direction", "do we want to be",
            "do we stand for",
        ),
    ),
    Rule(
        strategy="planning",
        reason="work is to be set out",
        cues=(
            "plan", "roadmap", "roll out", "rollout", "milestone", "phase", "next step", "do next", "work on next",
            "left to do", "to do list", "todo", "organise", "organize", "break * into", "break * down", "split * into",
            "agenda", "sprint", "backlog", "schedule", "timeline", "deadline", "estimate", "which order", "what order",
        ),
    ),
    Rule(
        strategy="decision",
        reason="something is to be chosen",
        cues=(
            "should we", "should i", "shall we", "shall i", "should choose", "which * should", "which * best",
            "best choice", "choose", "choice between", "pick between", "did we pick", "did we choose", "decide whether",
            "decide between", "decide if", "decide on", "to decide", "did we decide", "go with", "decision",
            "settle on", "compare * and", "compare * with", "pros and cons", "vs", "versus", "better to", "is better",
            "be wise", "is it wise", "worth", "trade off", "tradeoff", "make up my mind",
        ),
    ),
    Rule(
        strategy="debugging",
        reason="something fails",
        cues=(
            *FIX, "traceback", "stack trace", "segfault", "timeout", "times out", "hang", "freeze", "stuck", "deadlock",
            "leak", "corrupt", "flaky", "outage", "regression", "root cause", "troubleshoot", "wrong", "blank",
            "not work", "doesn t work", "don t work", "won t start", "keep restarting", "nothing happens",
            "no longer work", "stopped working", "works locally", "a 404", "a 500", "why * slow",
        ),
    ),
    Rule(
        strategy="research",
        reason="a subject is to be looked into",
        cues=(
            "research", "survey", "investigate", "literature", "paper", "study", "state of the art", "is known about",
            "published", "publication", "look into", "deep dive", "evidence", "competitor", "explore", "overview of",
            "find sources", "recent work",
        ),
    ),
    Rule(
        strategy="coding",
        reason="code is to be changed",
        cues=("implement", "refactor", "unit test", "type hint", "docstring"),
        words=frozenset(
            """api class cli code component decorator dockerfile endpoint function import javascript loop method module
            parser python regex rust script sql test typescript variable""".split()
        ),
        beside=frozenset(
            """add change clean convert create delete expose extract make move optimise optimize port remove rename
            replace rewrite should update write""".split()
        ),
        told=True,
    ),
    Rule(
        strategy="creation",
        reason="something is to be made",
        told=True,
        cues=(
            "write", "draft", "compose", "create", "generate", "invent", "brainstorm", "come up with", "make me",
            "make us", "make a", "put together", "i d like a", "design a", "design an", "produce a", "translate",
            "tagline", "slogan",
        ),
    ),
    Rule(
        strategy="conversation",
        reason="it is about a person's life",
        cues=(
            "my name", "my favourite", "my favorite", "i usually", "do i like", "don t i like", "do i prefer",
            "birthday", "anniversary", "allergy", "hobby", "family", "wife", "husband", "sister", "brother", "mother",
            "father", "mum", "mom", "dad", "grandma", "grandpa", "daughter", "girlfriend", "boyfriend", "my friend",
            "my dog", "my cat", "for a living",
        ),
    ),
)  # fmt: skip
"""In order: a query gets the strategy of the first that holds."""

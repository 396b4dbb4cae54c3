"""What user and agent say in made sessions, and the things said once that should be found again later."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from benchmarks.session_words import Words

ProbeKind = Literal["fact", "value", "file", "decision", "dead_end", "instruction", "who", "next"]
Said = Literal["user", "assistant", "call", "output"]
"""Where something stands: in a message, in a call's arguments, or in what a tool gave back."""
Carrier = Literal["log", "settings", "web", "failure", "search"]
"""The kind of output that something stands in."""

PROBE_KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)

_GOALS = """The $adjective $noun in $service shows up twice whenever two of the ${noun2}s arrive within the same second.
Please find out why $service stopped ${verb}ing the $noun after the last deployment.
I would like $func to $verb the $adjective $noun as well, not only the ones that $team owns.
We need a way to $verb every $noun of a $noun2 in one go, for the $team team.
$person reports that the $adjective $noun is missing in the $noun2 since yesterday morning.
Can you move the $noun handling out of $path and into a module of its own?
The $maker of $service is far too slow now: a $noun takes seconds where it took a moment.
Let's add an option with which an operator can $verb the $noun by hand.
Please write the missing tests for $func, above all for the $adjective $noun.""".splitlines()
_CONSTRAINTS = """Leave the public interface of $type as it is, since $team calls it.
Keep the change small, it has to go out today.
It must go on working with $technique, because $reason.
No new dependency, please.
The $noun must stay readable for the $adjective clients.
Please don't touch $path, $person is working on it right now.""".splitlines()
_CORRECTIONS = """No, that is not what I meant: the $noun has to be $adjective before the $noun2 is ${verb}ed.
Hm, you changed $path, but the caller in $path2 still expects the old $noun.
That test only passes because the $noun is empty; please give it a real $noun2.
You forgot the case where $fault.
Please read the log again, the $adjective $noun comes first and the $noun2 only later.""".splitlines()
_TURNS = """I changed my mind about $technique, let's rather try $technique2 after all.
Forget the $noun for now; the $adjective $noun2 is more urgent, $person is waiting for it.
Actually $team would like the $noun to be $adjective instead, so take back the last part.
Stop, before you go on: what does $func do with a $noun that is $adjective?
Good. Now do the same for the $noun2 of $service2, whose $maker has the same problem.""".splitlines()
_GO_ON = """Yes, go on, and run the whole suite for $service once you are through with the $noun.
Looks right to me. Continue with the $adjective $noun, then show me the diff.
Ok, thanks! Please go ahead, and tell me when the $maker is green again.
Fine. Next, as you said.
Sounds good, do that. If the $noun still fails afterwards, look at $path first.
Go on.""".splitlines()
_FOREIGN = """Bitte schau dir noch den $noun an, der wird seit gestern nicht mehr richtig aktualisiert.
Das stimmt so nicht: Zuerst muss der $noun2 gesperrt werden, danach darf $func laufen.
请先检查 $path 里的 $noun，然后再修改 $func，不要动其他文件。
好的，继续吧，完成之后运行一遍全部测试。
$func の動きがおかしいので、先にログを確認してください。
Revisa también el $noun, por favor, porque el $maker falla desde ayer.
Peux-tu vérifier pourquoi le $noun reste verrouillé après la mise à jour ?""".splitlines()
_PLANS = """I'll look at how $func treats a $adjective $noun first.
Let me check where the $noun is ${verb}ed before I change anything.
Now I'll run the tests for the $noun to see whether that was it.
The $noun comes from $service, so I'll read its $maker next.
I'll search for every caller of $func.
Let me see what $path does with the $noun2.
First the failing case, then the fix.
I'll $verb the $noun in $path and leave the $noun2 alone.
Let me look at the log of $service around that time.""".splitlines()
_OPENINGS = """In other words,|That explains it:|As far as I can see,|On second thoughts,|Reading on,|Besides,|So
|It seems that|Interestingly,|Compared with $service2,|For a $adjective2 $noun3,|According to $path,|Ever since $hash,
|Then again,||||||"""
_CLAUSES = """the $noun is built in $func and handed to the $maker, which ${verb}s it a second time
$type keeps its own copy of the $noun and never hears of the change
$func sees a $noun that is already $adjective
there are two callers, and only the one in $path ${verb}s the $noun first
a $adjective $noun reaches $service only through the $maker
the $noun2 does not matter here
this is the same pattern as in $type, where the $noun is ${verb}ed lazily
the test covers the $adjective $noun but not the one that $team sends
with $technique the order of the ${noun}s is no longer guaranteed
nobody ${verb}s the $noun once the $noun2 is $adjective
the simplest change is to let $func return the $noun
every path ends in $func, whatever the message says
what remains is the $noun of $service, which goes through another $maker
the $maker gives the $noun away before it has ${verb}ed the $noun2
$person seems to have ${verb}ed the $noun on purpose
$service and its $maker disagree on what a $adjective $noun is
the lookup of the $noun takes longer than the rest of $func
a retry ${verb}s the $noun twice while the $noun2 is still $adjective
the default of $const hides how few ${noun}s there are
$type and $type2 hold the lock in different order
the $noun arrives before its $noun2, so the $maker has nothing to $verb
an empty $noun is treated like a $adjective one
$team reads the $noun straight from the $noun2 and would not notice
the old $maker is still wired up in $path"""
_TAILS = """, which $func relies on|, and so the message names the wrong $noun4|; $fault|, because $reason
|, so that is where the check belongs|, although $team expects the opposite|, at least on branch $branch
|, as the log of $service3 shows|, unless somebody ${verb2}s the $noun4 meanwhile|, which is why $type3 exists
|, and the $noun4 follows from that|; $person2 may know more about it||||||"""
_CONCLUSIONS = """The $noun is ${verb}ed once now, and $func no longer depends on the $noun2.
Done: $path holds the new $maker, and its callers were moved over.
All tests of $service pass again, among them the one for the $adjective $noun.
I removed the second call and added a test that fails without the change.
$func now says which $noun is $adjective instead of returning nothing.
The $adjective $noun is handled as well, although the $noun2 still takes the long way.
I left $path2 as it was, because $team reads the $noun from there.
To sum up, the $noun was fine; it was the $maker that gave it away too early.""".splitlines()
_PASTED = "2026-02-$day $hour:$minute:$minute2 ERROR [$service] $func: $adjective $noun $big of $noun2 $number"

_PLANTS: Sequence[tuple[ProbeKind, Said, Carrier | None, str, str]] = (
    ("fact", "user", None,
     "For your information, [[the $thing only accepts $adjective2 ${noun2}s before $hour:$minute]].",
     "Until when does the $thing accept its ${noun2}s?"),
    ("fact", "user", None,
     "By the way, [[the $thing is shared with the $team teams of $number partner shops]].",
     "With whom is the $thing shared?"),
    ("fact", "assistant", None,
     "I found out that [[the $thing reads its $noun2 from the $adjective2 $noun3 of $service]].",
     "Where does the $thing read its $noun2 from?"),
    ("fact", "assistant", None,
     "Worth knowing: [[the $thing drops every $noun2 that is older than $few weeks]].",
     "Which ${noun2}s does the $thing drop?"),
    ("fact", "assistant", None,
     "It turns out that [[the $thing cannot $verb a $noun2 while the $noun3 is $adjective2]].",
     "When can the $thing not $verb a $noun2?"),
    ("fact", "output", "web",
     "[[The $thing sends each $noun2 to exactly one $maker2, chosen by the hash of its $noun3]].",
     "Which $maker2 gets a $noun2 from the $thing?"),
    ("value", "user", None,
     "The debug server of the $thing listens on [[port $port]], in case you need it.",
     "Which port does the debug server of the $thing listen on?"),
    ("value", "user", None,
     "The customer with the broken $thing is [[account $big$number]].",
     "Which account has the broken $thing?"),
    ("value", "assistant", None,
     "I raised the limit of the $thing to [[max_${noun2}s=$big]] for the test.",
     "What is the limit of ${noun2}s of the $thing?"),
    ("value", "assistant", None,
     "The $thing broke with [[release $few.$minute.$number]], the one before still works.",
     "With which release did the $thing break?"),
    ("value", "assistant", None,
     "The change to the $thing is in [[commit $hash]].",
     "Which commit holds the change to the $thing?"),
    ("value", "assistant", None,
     "For the $thing I measured a [[p99 of $big ms]] before the change.",
     "What was the p99 of the $thing before the change?"),
    ("value", "output", "log",
     "ERROR [$thing] could not connect: [[ECONNREFUSED 127.0.0.1:$port]]",
     "Which address refused the connection of the $thing?"),
    ("value", "output", "settings",
     "${maker2}_timeout: [[timeout_ms: $big]]  # of the $thing",
     "What is the timeout of the $thing in milliseconds?"),
    ("value", "output", "failure",
     "E   $type: the $thing gave up with [[error code E$big]]",
     "With which error code did the $thing give up?"),
    ("file", "assistant", None,
     "The code of the $thing is in [[$newpath]].",
     "In which file is the code of the $thing?"),
    ("file", "assistant", None,
     "I put the tests for the $thing into [[tests/$newpath]].",
     "Where are the tests for the $thing?"),
    ("file", "user", None,
     "The specification of the $thing is in [[docs/$team/$adjective2-$noun2-$maker2.md]].",
     "Where is the specification of the $thing?"),
    ("file", "call", None,
     "[[src/$team/${adjective2}_${noun2}_$maker2.py]]",
     "Which file of the $adjective2 $noun2 $maker2 was read or edited?"),
    ("file", "output", "search",
     "[[$newpath]]:$line:# entry point of the $thing",
     "Which file holds the entry point of the $thing?"),
    ("decision", "assistant", None,
     "[[For the $thing we chose $technique over $technique2 because $reason]].",
     "Why did we choose $technique for the $thing?"),
    ("decision", "assistant", None,
     "[[I decided to use $technique for the $thing instead of $technique2, since $reason]].",
     "What was decided for the $thing instead of $technique2?"),
    ("decision", "user", None,
     "[[We decided with $person to keep $technique for the $thing, because $reason]].",
     "What did we decide with $person about the $thing?"),
    ("decision", "user", None,
     "[[Let's go with $technique for the $thing rather than $technique2, as $reason]].",
     "With what do we go for the $thing rather than $technique2?"),
    ("dead_end", "assistant", None,
     "[[I tried $technique for the $thing, but it failed because $fault]].",
     "Why did $technique fail for the $thing?"),
    ("dead_end", "assistant", None,
     "[[Setting ${noun2}_$noun3 of the $thing to $number did not help, since $fault]].",
     "What did not help with the $thing?"),
    ("dead_end", "assistant", None,
     "[[I reverted $technique in the $thing: $fault]].",
     "What was reverted in the $thing and why?"),
    ("dead_end", "output", "failure",
     "[[Error: the $thing cannot use ${noun2}_$noun3: $fault]]",
     "What error did the $thing give about ${noun2}_$noun3?"),
    ("instruction", "user", None,
     "[[Never $verb the $noun2 of the $thing without asking $person first.]]",
     "Whom must I ask before touching the $thing?"),
    ("instruction", "user", None,
     "[[From now on, name every branch that touches the $thing $maker2-$number/<topic>.]]",
     "How should branches be named that touch the $thing?"),
    ("instruction", "user", None,
     "[[Always run the checks of the $thing with --$adjective2-$noun2 before you commit.]]",
     "How should the checks of the $thing be run before a commit?"),
    ("instruction", "user", None,
     "[[Do not log the $noun2 of the $thing, not even at debug level.]]",
     "What must not be logged of the $thing?"),
    ("instruction", "user", None,
     "[[Answer questions about the $thing in at most $few sentences.]]",
     "How long may answers about the $thing be?"),
    ("who", "user", None,
     "[[$person from the $team team owns the $thing]], ask there if in doubt.",
     "Who owns the $thing?"),
    ("who", "user", None,
     "[[$person has to approve every change to the $thing]] before it is merged.",
     "Who has to approve changes to the $thing?"),
    ("who", "assistant", None,
     "According to the history, [[$person wrote the $thing together with $person2]].",
     "Who wrote the $thing?"),
    ("next", "assistant", None,
     "Next step for later: [[$step for the $thing, as soon as the $noun2 is $adjective2]].",
     "What is the next step for the $thing?"),
    ("next", "assistant", None,
     "Still to do: [[$verb the $noun2 of the $thing and then $step]].",
     "What is still to do for the $thing?"),
    ("next", "user", None,
     "After this, please remember that [[the $thing still needs its $noun2 to be $adjective2]].",
     "What does the $thing still need?"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Something to be said once. `line` holds `text`, which is what has to be found; `question` asks for it."""

    kind: ProbeKind
    said: Said
    carrier: Carrier | None
    line: str
    text: str
    question: str


def plant(words: Words, kind: ProbeKind) -> Plant:
    """Something of that kind to be said."""
    _, said, carrier, line, question = words.source.choice([row for row in _PLANTS if row[0] == kind])
    line, question = words.fill(f"{line}\n{question}").split("\n")
    before, _, rest = line.partition("[[")
    text, _, after = rest.partition("]]")
    return Plant(kind=kind, said=said, carrier=carrier, line=before + text + after, text=text, question=question)


def goal(words: Words) -> list[str]:
    """How a user opens a piece of work."""
    return [*words.some(_GOALS, words.source.randint(1, 2)), *words.some(_CONSTRAINTS, words.source.randint(0, 2))]


def reply(words: Words) -> list[str]:
    """How a user goes on: with assent, a correction, a change of mind; now and then not in English."""
    if words.source.random() < 1 / 12:
        return words.some(_FOREIGN, words.source.randint(1, 2))
    templates = words.source.choices((_GO_ON, _CORRECTIONS, _TURNS), (4, 4, 3))[0]
    return [*words.some(templates, 1), *words.some(_CONSTRAINTS, words.source.randint(0, 1))]


def pasted(words: Words) -> list[str]:
    """Lines of a log that a user puts below a message."""
    return ["This is what I see:", *(words.fill(_PASTED) for _ in range(words.source.randint(8, 25)))]


def reasoning(words: Words, sentences: int) -> list[str]:
    """What an agent concludes from what it has seen."""
    made: list[str] = []
    for _ in range(sentences):
        opening, tail = (words.source.choice(parts.replace("\n", "").split("|")) for parts in (_OPENINGS, _TAILS))
        sentence = words.fill(f"{opening} {words.source.choice(_CLAUSES.splitlines())}{tail}".strip())
        made.append(sentence[0].upper() + sentence[1:] + ".")
    return made


def announcement(words: Words, sentences: int) -> list[str]:
    """What an agent says before a call: what it understood, and what it will do."""
    return [*reasoning(words, sentences - 1), *words.some(_PLANS, 1)]


def conclusion(words: Words, sentences: int) -> list[str]:
    """What an agent says at the end of a turn."""
    return [*words.some(_CONCLUSIONS, max(sentences // 2, 1)), *reasoning(words, sentences // 2)]

"""Sessions of coding agents made from a seed, with things in them that should be found again.

A session is pieces of work of a few turns each. In every turn the user says something, and the agent reads, searches,
runs and edits until it comes to a conclusion. *Probes* are things said once, spread evenly over the session.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.session_outputs import (
    build_log,
    git_output,
    listing,
    numbered,
    runner_command,
    runner_output,
    search_hits,
    service_log,
    settings_file,
    source_file,
    web_page,
)
from benchmarks.session_talk import (
    PROBE_KINDS,
    Carrier,
    Plant,
    ProbeKind,
    Said,
    announcement,
    conclusion,
    goal,
    pasted,
    plant,
    reply,
)
from benchmarks.session_words import Words
from mcp_memory.domain.model.records import Json, NewRecord
from mcp_memory.domain.model.session_log import Count

PROBES, PROBES_AT, PROBE_GROWTH = 40, 50_000, 0.7
"""So many probes at so many tokens; a longer session says fewer per token."""
USER_SHARE, ASSISTANT_SHARE = 0.045, 0.18
"""A turn goes on, and the agent explains more, until the shares are about these; the rest is the tools'."""
SENTENCE_TOKENS = 24
_MAX_STEPS, _MAX_SENTENCES, _MAX_REQUESTS = 14, 14, 5
_START, _PACE_SECONDS = 1_770_000_000.0, 20.0
_DONE, _FULL = 0.99, 1.02
_GOAL_TURNS = (3, 12)
_WEIGHTS: Mapping[ProbeKind, int] = {
    "fact": 3, "value": 6, "file": 3, "decision": 3, "dead_end": 3, "instruction": 2, "who": 2, "next": 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Something said once: its exact text, a question for it, and the place of the record that holds it."""

    kind: ProbeKind
    said: Said
    text: str
    question: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSession:
    """The log of a session in its order. `tokens` are those of the texts, by the counter it was made with."""

    records: Sequence[NewRecord]
    probes: Sequence[Probe]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call and what came of it. `planted` is what it was made to say."""

    tool: str
    arguments: Mapping[str, Json]
    output: str
    failed: bool = False
    planted: Plant | None = None


def made_session(tokens: int, seed: int, count: Count) -> MadeSession:
    """A session of about that many tokens, the same for the same seed.

    Each probe's text occurs in its own record alone, and there once.
    """
    author = _Author(tokens, seed, count)
    while not author.is_done:
        author.work_on_a_goal()
    return MadeSession(records=author.records, probes=_unmistakable(author), tokens=author.tokens)


class _Author:
    """Writes a session, one turn after the other, minding its size and who has said how much."""

    def __init__(self, tokens: int, seed: int, count: Count) -> None:
        self.records: list[NewRecord] = []
        self.probes: list[Probe] = []
        self.tokens = 0
        self._wanted = tokens
        self._count = count
        self._source = random.Random(seed)
        self._words = Words(self._source)
        self._said: Counter[str] = Counter()
        self._now = _START
        self._calls = 0
        self._waiting = _plants(self._source, tokens)
        self._planned = len(self._waiting)

    @property
    def is_done(self) -> bool:
        return self.tokens >= _DONE * self._wanted

    def work_on_a_goal(self) -> None:
        self._words = Words(self._source)
        for turn in range(self._source.randint(*_GOAL_TURNS)):
            if self.is_done:
                return
            self._turn(goal(self._words) if turn == 0 else reply(self._words))

    def _turn(self, said: list[str]) -> None:
        while self._said["user"] + sum(map(self._count, said)) < USER_SHARE * self.tokens and len(said) < _MAX_REQUESTS:
            said += reply(self._words)
        planted = self._due("user")
        if planted is not None:
            said.insert(self._source.randint(0, len(said)), planted.line)
        text = " ".join(said)
        if self._source.random() < 1 / 30:
            text = "\n".join([text, *pasted(self._words)])
        self._add([_message("user", text)], [planted])
        for _ in range(self._source.randint(1, _MAX_STEPS)):
            self._step()
            if self.is_done or self._said["user"] < USER_SHARE * self.tokens:
                break
        self._say(conclusion)

    def _step(self) -> None:
        """Announce something and do it; sometimes two things at once, or one again and again until it works."""
        if self._source.random() < 0.8:
            self._say(announcement)
        chance = self._source.random()
        if chance < 0.06:
            self._attempts()
        elif chance < 0.12:
            self._do([self._chosen(), self._chosen()])
        else:
            self._do([self._chosen()])

    def _attempts(self) -> None:
        """The same tests, failing until an edit helps."""
        command = runner_command(self._words)
        for _ in range(self._source.randint(1, 4)):
            self._do([_tests(self._words, self._due("output", "failure"), command=command)])
            self._say(announcement)
            self._do([_edit(self._words, None)])
        self._do([_passing(self._words, command)])

    def _chosen(self) -> _Call:
        """The next call: one that says what is due, or any."""
        if (planted := self._due("call")) is not None:
            return self._source.choice((_read, _edit))(self._words, planted)
        if (planted := self._due("output")) is not None and planted.carrier is not None:
            return _CARRIERS[planted.carrier](self._words, planted)
        return self._source.choices(list(_USUAL), list(_USUAL.values()))[0](self._words, None)

    def _say(self, how: Callable[[Words, int], list[str]]) -> None:
        """An agent's message, the longer the less it has said so far."""
        missing = ASSISTANT_SHARE * self.tokens - self._said["assistant"]
        sentences = how(self._words, min(max(int(missing / SENTENCE_TOKENS), 1), _MAX_SENTENCES))
        planted = self._due("assistant")
        if planted is not None:
            sentences.insert(self._source.randint(0, len(sentences)), planted.line)
        joint = self._source.choice((" ", " ", "\n\n", "\n- "))
        self._add([_message("assistant", joint.join(sentences))], [planted])

    def _do(self, calls: Sequence[_Call]) -> None:
        """The calls, then their results."""
        asked: list[NewRecord] = []
        given: list[NewRecord] = []
        for call in calls:
            self._calls += 1
            call_id = f"call_{self._calls:05}"
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            asked.append(NewRecord(text=arguments, kind="tool_call", role="assistant", tool=call.tool, call_id=call_id))
            given.append(
                NewRecord(
                    text=call.output.strip(),
                    kind="tool_result",
                    role="tool",
                    tool=call.tool,
                    call_id=call_id,
                    outcome="failure" if call.failed else "success",
                )
            )
        in_calls, in_results = (
            [call.planted if call.planted and call.planted.said == said else None for call in calls]
            for said in ("call", "output")
        )
        self._add([*asked, *given], [*in_calls, *in_results])

    def _add(self, said: Sequence[NewRecord], planted: Sequence[Plant | None]) -> None:
        """Put it down, if there is room; what it was made to say waits for another chance where there is none."""
        counts = [self._count(record.text) for record in said]
        if self.tokens + sum(counts) > _FULL * self._wanted:
            self._waiting = [each for each in planted if each is not None] + self._waiting
            return
        for record, tokens, held in zip(said, counts, planted, strict=True):
            if held is not None:
                self.probes.append(
                    Probe(kind=held.kind, said=held.said, text=held.text, question=held.question,
                          place=len(self.records))
                )  # fmt: skip
            self._now += self._source.expovariate(1 / _PACE_SECONDS)
            self.records.append(replace(record, occurred_at=self._now))
            self._said[record.role or ""] += 0 if record.kind == "tool_call" else tokens
            self.tokens += tokens

    def _due(self, said: Said, carrier: Carrier | None = None) -> Plant | None:
        """Something that should have been said by now, and can be there."""
        due = int(self._planned * self.tokens / self._wanted + 0.5) - (self._planned - len(self._waiting))
        for planted in self._waiting[: max(due, 0)]:
            if planted.said == said and carrier in (None, planted.carrier):
                self._waiting.remove(planted)
                return planted
        return None


def _plants(source: random.Random, tokens: int) -> list[Plant]:
    """What will be said once, in the order in which it should be."""
    wanted = round(PROBES * (tokens / PROBES_AT) ** PROBE_GROWTH)
    kinds: list[ProbeKind] = [kind for kind in PROBE_KINDS for _ in range(_WEIGHTS[kind])]
    made: list[Plant] = []
    while len(made) < wanted:
        source.shuffle(kinds)
        made += [plant(Words(source), kind) for kind in kinds[: wanted - len(made)]]
    return made


def _unmistakable(author: _Author) -> list[Probe]:
    """Probes whose text nothing else says."""
    texts = "\0".join(record.text for record in author.records)
    return [probe for probe in author.probes if texts.count(probe.text) == 1]


def _message(role: str, text: str) -> NewRecord:
    return NewRecord(text=text.strip(), kind="message", role=role)


def _with(output: str, words: Words, planted: Plant | None) -> str:
    """The output, with what is to be said as a line of its own somewhere in it."""
    if planted is None or planted.said != "output":
        return output
    lines = output.splitlines()
    lines.insert(words.source.randint(1, len(lines)), planted.line)
    return "\n".join(lines)


def _path(words: Words, planted: Plant | None) -> str:
    return planted.line if planted is not None and planted.said == "call" else words.draw("path")


def _read(words: Words, planted: Plant | None) -> _Call:
    lines = 50 + int(550 * words.source.random() ** 5)
    code = source_file(words, lines)
    is_part = words.source.random() < 0.4
    first = words.source.randint(2, 400) if is_part else 1
    arguments: dict[str, Json] = {"path": _path(words, planted)}
    if is_part:
        arguments |= {"offset": first, "limit": lines}
    return _Call(tool="read_file", arguments=arguments, output=numbered(code, first), planted=planted)


def _search(words: Words, planted: Plant | None) -> _Call:
    arguments = {
        "pattern": words.fill(words.source.choice(("$func", "$type\\(", "class $type", "$const"))),
        "path": ".",
    }
    # What matters is found among few hits: of forty, nobody could say which of them did.
    hits = search_hits(words, words.source.randint(1, 5) if planted else words.source.randint(3, 40))
    return _Call(tool="grep", arguments=arguments, output=_with(hits, words, planted), planted=planted)


def _tests(words: Words, planted: Plant | None, *, command: str = "") -> _Call:
    output = runner_output(words, failed=True, error=planted.line if planted else None)
    return _shell(command or runner_command(words), output, planted, failed=True)


def _passing(words: Words, command: str) -> _Call:
    return _shell(command, runner_output(words, failed=False), None)


def _good_tests(words: Words, _: Plant | None) -> _Call:
    return _passing(words, runner_command(words))


def _git(words: Words, _: Plant | None) -> _Call:
    command = words.source.choice(("status", "log", "diff", "diff"))
    return _shell(f"git {command}", git_output(words, command), None)


def _build(words: Words, _: Plant | None) -> _Call:
    command = words.fill(
        words.source.choice(("docker build -t $service .", "npm run build", "make $noun", "cargo build"))
    )
    return _shell(command, build_log(words, words.source.randint(8, 70)), None)


def _log(words: Words, planted: Plant | None) -> _Call:
    command = words.fill(
        words.source.choice(("kubectl logs deploy/$service --tail $few", "tail -n 80 /var/log/$service"))
    )
    return _shell(command, _with(service_log(words, words.source.randint(8, 60)), words, planted), planted)


def _settings(words: Words, planted: Plant | None) -> _Call:
    output = _with(settings_file(words, words.source.randint(8, 40)), words, planted)
    return _shell(words.fill("cat deploy/$service/$noun.yaml"), output, planted)


def _listing(words: Words, _: Plant | None) -> _Call:
    return _shell(words.fill("find . -name '*$noun*'"), listing(words, words.source.randint(3, 40)), None)


def _missing(words: Words, _: Plant | None) -> _Call:
    command, error = words.source.choice((
        ("cat $path", "cat: $path: No such file or directory"),
        ("$maker --$verb $noun", "bash: $maker: command not found"),
        ("psql -c 'select count(*) from $noun'", 'ERROR:  relation "$noun" does not exist'),
    ))  # fmt: skip
    command, error = words.fill(f"{command}\n{error}").split("\n")
    return _shell(command, error, None, failed=True)


def _edit(words: Words, planted: Plant | None) -> _Call:
    old, new = (source_file(words, words.source.randint(8, 30)) for _ in range(2))
    path = _path(words, planted)
    output = "The file has been updated. Here is the changed part:\n" + numbered(new, words.source.randint(2, 400))
    return _Call(tool="edit", arguments={"path": path, "old": old, "new": new}, output=output, planted=planted)


def _write(words: Words, planted: Plant | None) -> _Call:
    lines = words.source.randint(20, 80)
    content = source_file(words, lines)
    output = f"Wrote {lines} lines."
    return _Call(tool="write", arguments={"path": words.new_path(), "content": content}, output=output, planted=planted)


def _web(words: Words, planted: Plant | None) -> _Call:
    url = words.fill("https://docs.example.org/$service/$noun/$verb")
    page = _with(web_page(words, words.source.randint(3, 14)), words, planted)
    return _Call(tool="web_fetch", arguments={"url": url}, output=page, planted=planted)


def _shell(command: str, output: str, planted: Plant | None, *, failed: bool = False) -> _Call:
    return _Call(tool="bash", arguments={"command": command}, output=output, failed=failed, planted=planted)


_USUAL: Mapping[Callable[[Words, Plant | None], _Call], int] = {
    _read: 15, _search: 12, _good_tests: 12, _tests: 8, _git: 10, _build: 7, _log: 7, _settings: 4, _listing: 6,
    _missing: 4, _edit: 14, _write: 2, _web: 5,
}  # fmt: skip
_CARRIERS: Mapping[Carrier, Callable[[Words, Plant | None], _Call]] = {
    "log": _log, "settings": _settings, "web": _web, "failure": _tests, "search": _search,
}  # fmt: skip

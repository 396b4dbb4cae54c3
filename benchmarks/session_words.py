"""The words that made sessions are written in: what a piece of work speaks of, and how people and agents put it.

Templates hold blanks: `$noun` is drawn by Zipf's law from what the work at hand speaks of, so that names come up again;
the same blank is the same word within one text, `$noun2` is another. `${noun}s` and `${verb}ed` are inflected.
"""

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate

_NOUNS = """account alert anchor archive artifact asset attachment audit balance banner batch bill booking branch
 broker bucket budget buffer bundle cache calendar campaign canary cart catalogue certificate channel charge checkout
 chunk claim cluster cohort column comment commit config consent contract coupon course currency cursor customer
 dashboard deadline delivery deposit digest discount dispatch document domain draft endpoint entry envelope event
 exchange export feature feed field filter fixture folder forecast form gateway grant graph group handler header
 heartbeat history hook image import index inquiry inventory invoice item job journal label layout lease ledger limit
 link listing loader locale lock log lookup mailbox manifest map marker merge message metric migration mirror model
 module monitor notice offer offset order outbox package page parcel parser partition patch payload payment payout
 permit photo pipeline plan player policy pool portal price probe product profile project prompt proof proxy queue
 quota quote ranking rate receipt record redirect refund region registry release renewal replica report request reserve
 resource response result retry review reward role route rule sample scan schedule schema scope search segment sensor
 series session settlement shard shift shipment signal site slot snapshot source stage statement stock storage stream
 subscription survey sync table tag target tariff task template tenant thread ticket timer topic trace track transfer
 trial trigger unit upload user usage vendor version view visit voucher wallet warehouse webhook widget window worker
 workflow workspace zone""".split()
_VERBS = """add align apply archive batch bind build cache cancel check claim clean clone close collect compact
 compare compress copy count deduplicate defer delete deliver deploy detect dispatch drain drop emit encode enqueue
 evict expand expire export fetch filter flush format freeze group handle hash import index inject insert join link
 list load lock log map match measure merge migrate mirror move normalise notify open pack parse patch persist pin poll
 prefetch process prune publish purge push query queue read rebuild reconcile record refresh register reject release
 remove render replay report reserve reset resize resolve restore retry revert rotate route run sample save scan
 schedule score seal select send settle shrink sign skip sort split start stop store stream submit swap sync tag
 throttle trace track trim update upload validate verify warm watch wrap write""".split()
_ADJECTIVES = """abandoned active annual anonymous automatic bulk cached central chained closed cold combined compact
 conditional corrupt cross-border daily dead deferred delayed direct dormant draft dry duplicate early empty expired
 external failed fallback fast final first foreign frozen global guest half-open hidden hourly idle incoming inner
 internal invalid joint late lazy legacy linked live local lost manual merged minor mobile monthly moving nested
 nightly offline open orphaned outgoing overdue partial pending permanent primary private public quiet rare raw
 read-only recurring regional rejected remote returned rolling secondary shared signed silent single skipped slow
 sparse staged stale static streaming strict temporary tiered trusted unpaid unused urgent verified virtual
 weekly""".split()
_MAKERS = """builder checker collector exporter guard importer indexer keeper loader mailer mapper matcher merger
 monitor planner publisher reader reaper recorder relay reporter resolver router sampler scheduler sender splitter
 syncer tracker validator watcher writer""".split()
_FIRST = """Adaeze Aiko Alba Amara Anders Anouk Arjun Beatriz Bilal Bogdan Camille Cheng Clara Davit Diego Dilnoza
 Ebba Ece Elif Emil Esra Farid Femi Freya Gita Gustav Hamza Hanna Ilse Imani Ines Isak Jarek Joanna Kaito Keiko Kwame
 Laila Lars Leila Linh Luca Magda Malik Marek Mei Milan Mina Naomi Nadia Nuno Oksana Oskar Pavel Petra Priya Rafael
 Rania Ravi Rosa Ruben Sanna Selin Sofia Stefan Suda Tariq Tomas Uma Vera Viktor Wanda Wei Yara Yusuf Zofia""".split()
_FAMILY = """Adeyemi Almeida Aziz Baptiste Becker Bose Castellano Chaudhry Chen Dahl Delacroix Demir Dvorak Eklund
 Fontaine Fujita Gallo Ghosh Gupta Haas Hashimoto Herrera Holm Horvat Iyer Jansen Kaplan Karlsson Khan Kovacs Kruger
 Lindqvist Lombardi Madsen Marino Mendes Mohr Nakagawa Ndiaye Nguyen Nowak Obi Okonkwo Oliveira Ortega Ozturk Pereira
 Popescu Raman Reyes Richter Romero Roux Sandoval Santos Schuster Shah Sokolov Steiner Takeda Thorsen Valdez Varga
 Weiss Wen Winther Yamada Zeman Zielinski""".split()
_TEAMS = """billing catalogue checkout compliance data delivery finance growth identity infrastructure logistics
 mobile onboarding payments platform pricing risk search security storefront support trust warehouse""".split()
_FOLDERS = "app apps backend cmd core internal lib libs modules packages pkg server services src tools workers".split()
_EXTENSIONS: Mapping[str, str] = {"python": "py", "typescript": "ts", "go": "go", "rust": "rs", "java": "java"}
_TECHNIQUES = """advisory locks|an append-only table|a bloom filter|a circuit breaker|a columnar export
|consistent hashing|a cron job|cursor pagination|a dead-letter queue|delta encoding|an event log|exponential backoff
|a feature flag|file-based locks|a finite state machine|gRPC streaming|a hash ring|idempotency keys
|an in-process cache|a job table|keyset pagination|a lease table|long polling|a materialised view|a message bus
|a nightly rebuild|optimistic locking|an outbox table|parallel workers|partial indexes|a prefix tree
|a priority queue|protocol buffers|a read replica|Redis streams|a ring buffer|row-level security|server-sent events
|a shadow table|a single writer|snapshot isolation|soft deletes|a sorted set|SQLite in WAL mode|a staging table
|streaming JSON|a time wheel|two-phase commit|vector clocks|a write-ahead log""".replace("\n", "").split("|")
_REASONS = """it survives a restart|it needs no extra service|the replicas lag by minutes|the vendor bills per call
|two writers raced in staging|it keeps the migration reversible|the driver leaks connections|nobody on call knows it
|it halves the memory of a worker|the audit needs a complete trail|the old one blocks the event loop
|its licence does not allow resale|customers see stale prices otherwise|the index no longer fits into memory
|it can be tested without a network|the retries multiplied the load|it is already deployed in both regions
|the payloads are larger than its limit|it gives exactly-once per key|rollbacks take seconds instead of hours"""
_FAULTS = """the wheel has no arm64 build|the proxy strips the header|the lock is taken twice on retry
|the clock of the container drifts|the generated client ignores the option|the index is rebuilt on every start
|the test database has another collation|the worker dies before the flush|two threads share the cursor
|the cache key lacks the tenant|the socket stays half open|the schema check runs before the migration
|the base image pins an older libc|the batch exceeds the broker's limit|the signal handler swallows the error
|the glob also matches the backup folder|the type stub is out of date|daylight saving shifts the window"""
_STEPS = """open the pull request|rerun the slow suite|ask for a review|update the runbook|remove the feature flag
|delete the shadow table|backfill the missing rows|tell the support team|lower the log level again|measure the p99
|add a regression test|bump the client library|move the alert threshold|rename the metric|document the fallback"""
_POOLS: Mapping[str, Sequence[str]] = {
    "noun": _NOUNS, "verb": _VERBS, "adjective": _ADJECTIVES, "maker": _MAKERS, "team": _TEAMS,
    "technique": _TECHNIQUES,
    "reason": _REASONS.replace("\n", "").split("|"),
    "fault": _FAULTS.replace("\n", "").split("|"),
    "step": _STEPS.replace("\n", "").split("|"),
}  # fmt: skip
_FLATNESS = 6
"""The first word of a pool is as frequent as the sixth would be: work speaks of more than one thing."""
_BLANK = re.compile(r"\$(?:\{([a-z]+[0-9]?)\}(s|ed|ing)?\b|\{([a-z]+[0-9]?)\}|([a-z]+[0-9]?))")
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "few": (2, 9), "line": (3, 900), "number": (11, 9_999), "ms": (2, 990), "port": (20_000, 65_000),
    "big": (10_000, 999_999), "percent": (1, 99), "hour": (0, 23), "minute": (10, 59), "day": (1, 28),
}  # fmt: skip


class Words:
    """What one piece of work speaks of, and the language its code is in. Draws from `source` alone."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.language = source.choice(list(_EXTENSIONS))
        self._pools: dict[str, Sequence[str]] = {
            name: source.sample(things, min(len(things), 45)) for name, things in _POOLS.items()
        }
        self._pools["person"] = [_person(source) for _ in range(6)]
        self._pools["service"] = [f"{self.draw('noun')}-{self.draw('maker')}" for _ in range(6)]
        self._pools["type"] = [_camel(self.fill("$adjective $noun $maker")) for _ in range(30)]
        self._pools["func"] = [self.fill("${verb}_${noun}_$noun2") for _ in range(60)]
        self._pools["const"] = [self.fill("${noun}_${noun2}_LIMIT").upper() for _ in range(15)]
        self._pools["branch"] = [self.fill("$verb-$adjective-$noun") for _ in range(4)]
        self._pools["path"] = [self.new_path() for _ in range(40)]

    def draw(self, name: str) -> str:
        """A word for the blank of that name, digits aside."""
        if name in _NUMBERS:
            return str(self.source.randint(*_NUMBERS[name]))
        if name == "hash":
            return f"{self.source.getrandbits(40):010x}"
        if name == "newpath":
            return self.new_path()
        if name == "thing":
            return self.fill("$adjective $noun $maker")
        pool = self._pools[name]
        return self.source.choices(pool, cum_weights=_shares(len(pool)))[0]

    def fill(self, template: str, **given: str) -> str:
        """The template with its blanks filled in, with what is given first of all."""
        said = dict(given)

        def word(blank: re.Match[str]) -> str:
            name = blank[1] or blank[3] or blank[4]
            if name not in said:
                said[name] = self.draw(name.rstrip("0123456789"))
            return _inflected(said[name], blank[2] or "")

        return _BLANK.sub(word, template)

    def new_path(self) -> str:
        """A path of a source file in the language at hand."""
        extension = _EXTENSIONS[self.language]
        folder = self.source.choice(_FOLDERS)
        return self.fill(f"{folder}/$noun/${{adjective}}_${{noun2}}_$maker.{extension}").replace("-", "_")

    def some(self, templates: Sequence[str], count: int) -> list[str]:
        """So many of the templates, filled in; none twice before all were used."""
        rounds, rest = divmod(count, len(templates))
        chosen = [*templates] * rounds + self.source.sample(templates, rest)
        return [self.fill(template) for template in chosen]


def _person(source: random.Random) -> str:
    return f"{source.choice(_FIRST)} {source.choice(_FAMILY)}"


def _inflected(word: str, ending: str) -> str:
    """The word with the ending s, ed or ing, as English spells most of them."""
    if not ending:
        return word
    if word.endswith("y") and word[-2] not in "aeou" and ending != "ing":
        return word[:-1] + ("ies" if ending == "s" else "ied")
    if word.endswith("e") and ending != "s":
        return word[:-1] + ending
    if ending == "s" and word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    return word + ending


def _camel(words: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[ -]", words))


@cache
def _shares(count: int) -> list[float]:
    return list(accumulate(1 / place for place in range(_FLATNESS, _FLATNESS + count)))

"""Servers on one PostgreSQL, killed at random; then its primary, killed with a standby beside it: what is lost?

    python -m benchmarks.replicas [--servers 2] [--clients 4] [--rounds 5] [--least 0] [--texts 1] [--seed 0]
    python -m benchmarks.replicas --failover sync|async [--rounds 5] ...
    python -m benchmarks.replicas --pgvector ... | --pooled 4 ...

`--clients` of each server store one call after the other, `--texts` of them in a call, at a server that is drawn
anew each time. A call without an answer is repeated at another one, under the same key. What was acknowledged is
asked of another server at once: each text by a word that only it holds, and one of each call by its sentence without
that word. Each round also stores a sentence that another server is asked for in other words. Where it answers that
nothing bears on the question, the one that stored the sentence is asked too: `not by its own server either` counts what
the relevance gate keeps back in a memory of that size, wherever it is asked.

A round kills a server (SIGKILL) and starts it again; or it kills the primary and all its children, promotes the
standby, and makes a new standby of what the primary was. `async` holds the standby back for a moment before, so that
something is lost, and shows that this was never what replication had confirmed. With `--pgvector` pgvector names the
candidates of every search by meaning, and at the end each text that was acknowledged for its own vector. `--pooled`
puts PgBouncer in transaction mode before the database, with so many connections to it.

Ends with 1 where anything acknowledged was lost that may not be, stored twice, missing from an index that follows, or
not found.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import psycopg

from benchmarks.durability import NAMESPACE, show, side_by_side
from benchmarks.postgres_clusters import Cluster, Pooler, address_of
from benchmarks.replica_clients import IN_OTHER_WORDS, Caller, Seen, work
from benchmarks.replica_servers import PATIENCE_SECONDS, FollowedIds, Replica, not_named_by_pgvector, push, watch
from benchmarks.texts import memories
from mcp_memory.stores.records.database_postgres import PostgresDatabase

BETWEEN_SECONDS = 0.5
"""At most so long goes well, from one fault to the next."""
HELD_BACK_SECONDS = 1.0
SENTENCES = 40_000
MEANINGS = (
    ("The kitten dozes on the windowsill all afternoon.", "where does the young cat nap?"),
    ("Our bakery burns oak logs in its oven.", "what wood heats the place where bread is made?"),
    ("Grandfather plays the cello on Sunday evenings.", "which string instrument does grandpa practise?"),
    ("The ferry to the island departs at dawn.", "when does the boat leave?"),
    ("Snow closed the mountain pass in January.", "why could nobody drive over the alps in winter?"),
    ("The dentist moved her practice above the pharmacy.", "where do I get my teeth checked now?"),
    ("Marta is allergic to peanuts.", "which nuts make somebody ill?"),
    ("The violin lesson costs forty euros.", "price of music teaching"),
    ("The lighthouse keeper grows tomatoes.", "which vegetables does the man by the sea plant?"),
)
"""Sentences, and questions in other words."""


class Faults:
    """The rounds: each is one fault, once all clients have been answered since the last."""

    def __init__(
        self, replicas: Sequence[Replica], clusters: list[Cluster], caller: Caller, seen: Seen, seconds: float
    ) -> None:
        self.until = time.monotonic() + seconds
        self.replicas = replicas
        self.clusters = clusters
        self.caller = caller
        self.seen = seen
        self.promoted_seconds: list[float] = []
        self.primary = 0

    def run(self, rounds: int, least: int, failover: str, rng: random.Random) -> None:
        """Make so many rounds, spread over as many texts as shall be acknowledged."""
        try:
            for number in range(1, rounds + 1):
                self._wait(max(least * number // rounds, len(self.seen.acknowledged) + 2 * len(self.replicas)))
                self._ask_in_other_words(number)
                time.sleep(rng.uniform(0, BETWEEN_SECONDS))
                if failover:
                    self._fail_over(is_synchronous=failover == "sync")
                else:
                    replica = rng.choice(self.replicas)
                    replica.kill()
                    replica.start()
                self.seen.rounds += 1
            self._wait(len(self.seen.acknowledged) + 2 * len(self.replicas))
        except (RuntimeError, OSError, psycopg.Error) as error:
            self.seen.failed.append(f"round {self.seen.rounds + 1}: {error}")
        finally:
            self.caller.close()
            self.seen.is_over.set()

    def _wait(self, acknowledged: int) -> None:
        while len(self.seen.acknowledged) < acknowledged and time.monotonic() < self.until:
            before, until = len(self.seen.acknowledged), time.monotonic() + 2 * PATIENCE_SECONDS
            while len(self.seen.acknowledged) == before:
                if time.monotonic() > until:
                    raise RuntimeError("nothing is acknowledged any more")
                time.sleep(0.01)

    def _ask_in_other_words(self, number: int) -> None:
        text, question = MEANINGS[number % len(MEANINGS)]
        word = f"m{number}"
        url = self.caller.store(word, {word: f"Note {word}: {text}"})
        self.caller.seek(question, word, url, IN_OTHER_WORDS)

    def _fail_over(self, *, is_synchronous: bool) -> None:
        """Kill the primary, promote the standby, and make a standby of the other."""
        old, new = self.clusters[self.primary], self.clusters[1 - self.primary]
        self.primary = 1 - self.primary
        if is_synchronous:
            self._stop_replay(old, new)
        else:
            self._hold_back(old)
        began = time.monotonic()
        old.kill()
        if any(each.is_ready() for each in self.replicas):
            raise RuntimeError("a server says that it is ready, without a primary")
        new.promote()
        self.promoted_seconds.append(time.monotonic() - began)
        self._wait(len(self.seen.acknowledged) + 2 * len(self.replicas))
        old.follow(new)
        old.start()
        new.wait_for_standby(synchronous=is_synchronous)

    def _stop_replay(self, primary: Cluster, standby: Cluster) -> None:
        """Let a standby take the log in and not replay it: the gauge of its lag shows that, and servers stay ready."""
        ((place,),) = primary.ask("SELECT pg_current_wal_lsn()")
        standby.ask("SELECT pg_wal_replay_pause()")
        self._wait(len(self.seen.acknowledged) + 2 * len(self.replicas))
        ((least,),) = primary.ask(f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{place}')")
        with closing(PostgresDatabase(primary.url)) as database:

            def behind() -> float:
                return database.gauges().get("replica_lag_bytes", 0)

            # A primary hears of its standby now and then.
            _until(lambda: behind() >= least, lambda: f"a standby lacks {least} bytes; the gauge says {behind()}")
            if not all(each.is_ready() for each in self.replicas):
                raise RuntimeError("a server is not ready, while a standby takes the log in")
            standby.ask("SELECT pg_wal_replay_resume()")
            _until(lambda: database.gauges()["replica_lag_bytes"] < least, lambda: "the gauge shows a lag that is over")

    def _hold_back(self, old: Cluster) -> None:
        """Stop what sends to the standby, once this has all that was acknowledged until now; what comes may be lost."""
        since = time.monotonic()
        ((place,),) = old.ask("SELECT pg_current_wal_insert_lsn()")
        while not old.ask(f"SELECT 1 FROM pg_stat_replication WHERE flush_lsn >= '{place}'"):  # noqa: S608
            time.sleep(0.01)
        ((sender,),) = old.ask("SELECT pid FROM pg_stat_replication")
        psutil.Process(sender).suspend()
        time.sleep(HELD_BACK_SECONDS)
        old.kill()
        self.seen.unconfirmed.append((since, time.monotonic()))


def _until(is_so: Callable[[], bool], fault: Callable[[], str]) -> None:
    """Wait until it is so. Raises RuntimeError with the fault where it takes too long."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(fault())
        time.sleep(0.05)


def stored(cluster: Cluster) -> Mapping[str, str]:
    """Return the word of each record, by its id."""
    rows = cluster.ask(f"SELECT id, text FROM records WHERE namespace = '{NAMESPACE}'")  # noqa: S608
    return {record_id: text.split()[1].rstrip(":") for record_id, text in rows}


def run(
    folder: Path,
    servers: int,
    clients: int,
    rounds: int,
    least: int,
    texts: int,
    seed: int,
    failover: str,
    seconds: float = math.inf,
    pooled: int = 0,
    *,
    pgvector: bool = False,
) -> bool:
    """True where nothing was lost that may not be, twice, skipped or not found; prints the table."""
    rng, seen, followed = random.Random(seed), Seen(), FollowedIds()
    clusters = [Cluster(folder / name) for name in ("one", "two")][: 2 if failover else 1]
    began = time.monotonic()
    replicas: list[Replica] = []
    poolers = [Pooler(folder / "pooler", clusters[0].port, pooled)] if pooled else []
    try:
        clusters[0].create()
        clusters[0].start()
        if failover:
            clusters[1].follow(clusters[0])
            clusters[1].start()
            clusters[0].wait_for_standby(synchronous=failover == "sync")
        for pooler in poolers:
            pooler.start()
        address = poolers[0].address() if poolers else address_of(clusters)
        if pgvector:
            push(address)
        semantic_store = "pgvector:1" if pgvector else "auto"
        replicas = [Replica(folder / f"server{number}", address, semantic_store) for number in range(servers)]
        replicas[0].start()
        secret = replicas[0].make_token()
        side_by_side([replica.start for replica in replicas[1:]])
        urls, told = [replica.url for replica in replicas], _sentences(seed)
        callers = [Caller(urls, secret, seen, seed + number) for number in range(servers * clients + 1)]
        faults = Faults(replicas, clusters, callers[0], seen, seconds)
        follower = threading.Thread(target=watch, args=(address, followed, seen.is_settled))
        follower.start()
        side_by_side(
            [
                lambda: faults.run(rounds, least, failover, rng),
                *(lambda n=n, c=c: work(c, f"c{n}", told, texts, seen) for n, c in enumerate(callers[1:])),
            ]
        )
        seen.is_settled.set()
        follower.join()
        kept = stored(clusters[faults.primary])
        wanted = [each for each in seen.acknowledged.values() if each in kept] if pgvector else []
        unnamed = not_named_by_pgvector(address, wanted) if pgvector else []
        return _shown(seen, kept, followed, faults, unnamed, time.monotonic() - began)
    finally:
        seen.is_over.set()
        seen.is_settled.set()
        for each in (*replicas, *clusters):
            each.kill()
        for pooler in poolers:
            pooler.stop()


def _sentences(seed: int) -> Iterator[str]:
    """Yield sentences, each of them once."""
    return iter([item.text for item in memories(SENTENCES, seed)])


def _shown(
    seen: Seen, records: Mapping[str, str], followed: FollowedIds, faults: Faults, unnamed: list[str], seconds: float
) -> bool:
    kept = Counter(records.values())
    lost = [word for word in seen.acknowledged if word not in kept]
    lost_confirmed = [word for word in lost if not seen.may_be_lost(word)]
    twice = [word for word, times in kept.items() if times > 1]
    missed = records.keys() ^ followed.ids
    seen.not_found = [each for each in seen.not_found if each.split()[-1] in kept]
    show(
        [
            ("rounds", seen.rounds),
            ("acknowledged", len(seen.acknowledged)),
            ("acknowledged and lost", len(lost)),
            ("of these confirmed by a standby", len(lost_confirmed)),
            ("stored twice", len(twice)),
            ("missing from a follower's index, or too many", len(missed)),
            *((f"asked another server, {how}", times) for how, times in seen.sought.items()),
            *((f"not found, {how}", sum(each.startswith(how) for each in seen.not_found)) for how in seen.sought),
            ("not by its own server either, in other words", seen.kept_back),
            ("not named by pgvector for their own vectors", len(unnamed)),
            ("calls repeated; known as done", f"{seen.repeated.total()}; {seen.done_before}"),
            ("calls given up", len(seen.failed)),
            ("longest write, s", f"{max(seen.seconds, default=0):.2f}"),
            ("median write, s", f"{sorted(seen.seconds)[len(seen.seconds) // 2]:.3f}"),
            ("longest promotion, s", f"{max(faults.promoted_seconds, default=0):.2f}"),
            ("load; all, s", f"{os.getloadavg()[0]:.1f}; {seconds:.0f}"),
        ]
    )
    for told, times in seen.repeated.most_common(6):
        print(f"  {times} x {told}")
    for each in [*seen.failed[:5], *seen.not_found[:20], *unnamed[:5]]:
        print("  ", each)
    return not (lost_confirmed or twice or missed or unnamed or seen.not_found or seen.failed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.replicas", description="What is lost when servers die?")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=4, help="on each server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=int, default=0, help="texts that are acknowledged, at least")
    parser.add_argument("--texts", type=int, default=1, help="in a call")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which rounds wait for no more texts")
    parser.add_argument("--failover", choices=("", "sync", "async"), default="")
    parser.add_argument("--pooled", type=int, default=0, help="connections of PgBouncer to PostgreSQL; 0 without it")
    parser.add_argument("--pgvector", action="store_true", help="vectors of the clients' scope are in pgvector")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="replicas-"))
    folder.chmod(0o755)  # PostgreSQL may run as another user.
    try:
        held = run(folder, **vars(chosen))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()

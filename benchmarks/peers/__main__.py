"""Other memory servers beside this one, over stdio: what they cost, find, show and lose, and when others can read.

    python -m benchmarks.peers --peers-dir DIR [--python PYTHON …] [--only NAME …] [--parts PART …] [--write]
        [--retrieval DIR] [--histories DIR …]

Each peer is installed as its package index gives it today, into a folder of its own under --peers-dir, and runs with a
home folder of its own and no way out to the network. The parts:

- cost: start and first search of a fresh process, memory, store, search (100 records; servers take turns).
- retrieval: questions in other words than the stored ones, found among five, in samples of the sets in --retrieval.
- answers: the answering words in the first 300 and 1,000 tokens of what is given back, in samples of --histories.
- writers: four clients of one memory store 25 texts each at once, and one is killed meanwhile; lost acknowledgements.
- lag: from the acknowledgement of a store until another client of the same memory finds it.

--write puts the figures into benchmarks/data/peers.json, in place of those of the same parts and servers, and writes
docs/comparison.md and the block in README.md from that file.

Private memory (USS) counts the pages of libraries that no other process uses at the moment; what a server has written
for itself does not depend on others.

What a peer embeds with, since no model can be downloaded:
- mempalace, chroma-mcp, mcp-memory-service with ONNX: all-MiniLM-L6-v2 in this project's 8-bit weights, put where they
  keep their download. They would download float32 weights, which take two to four times as long (docs/model.md).
- mcp-memory-service, installed plainly: its hash fallback, which knows no meaning.
- server-memory, mcp-memory-libsql, basic-memory: none; they look for the words of the query in the texts.
- mcp-server-qdrant: a model from a hub, and nothing else. Without one it does not start.

mcp-memory-service needs a Python whose SQLite loads extensions, basic-memory needs 3.12: --python takes several
interpreters, and each peer runs in the first that can install it.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers import cost, page, questions, results, sharing
from benchmarks.peers.installing import install, reshape_model, version
from benchmarks.peers.running import Run
from benchmarks.peers.servers import OURS, PEERS, Peer
from benchmarks.texts import memories

Part = Callable[[argparse.Namespace, Sequence[Run]], tuple[Mapping[str, object], Mapping[str, results.Figures]]]
"""Measures servers; gives its conditions, and the figures of each server by name."""


def main() -> None:
    """Install, measure the parts one after another, and print or write what they say."""
    chosen = arguments()
    peers = [peer for peer in (OURS, *PEERS) if not chosen.only or peer.name in chosen.only]
    failures = installed(chosen, peers)
    figures = results.read()
    for peer in peers:
        figures["servers"][peer.name] = told(peer, chosen.peers_dir / peer.name)
    for part in chosen.parts:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            runs = [at_home(chosen, peer, Path(temporary), failures.get(peer.name, "")) for peer in peers]
            conditions, measured = PARTS[part](chosen, [run for run in runs if not run.failure])
            failed = {run.peer.name: {"failure": run.failure} for run in runs if run.failure}
        merge(figures, part, conditions, {**measured, **failed})
        if chosen.write:
            results.write(figures)
            page.write(figures)
        print(f"{part}: {', '.join({**measured, **failed})}", flush=True)
    print(page.comparison(figures))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peers-dir", type=Path, required=True, help="where peers are installed, each in its folder")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[peer.name for peer in (OURS, *PEERS)], help="these alone"
    )
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], help="these parts; default: all whose data is given")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters of the peers, in turn")
    parser.add_argument("--retrieval", type=Path, help="folder with memories.jsonl and queries.jsonl")
    parser.add_argument("--histories", type=Path, nargs="+", help="folders with records.jsonl and questions.jsonl")
    parser.add_argument("--records", type=int, default=100, help="records of the part cost")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each")
    parser.add_argument("--writer-rounds", type=int, default=1, help="memories that four clients fill at once")
    parser.add_argument("--sample", type=int, default=200, help="records of a retrieval set")
    parser.add_argument("--questions", type=int, default=60, help="questions of a retrieval set")
    parser.add_argument("--history-sample", type=int, default=300, help="records of a history")
    parser.add_argument("--write", action="store_true", help="write the file of figures and what is made of it")
    chosen = parser.parse_args()
    without = {"retrieval": chosen.retrieval, "answers": chosen.histories}
    chosen.parts = chosen.parts or [part for part in PARTS if without.get(part, part)]
    for part in chosen.parts:
        if not without.get(part, part):
            parser.error(f"the part {part} needs its data: --retrieval DIR or --histories DIR")
    chosen.peers_dir = chosen.peers_dir.resolve()
    return chosen


def installed(chosen: argparse.Namespace, peers: Sequence[Peer]) -> dict[str, str]:
    """Install them and the model that they share; say which could not be, and why."""
    failures = dict[str, str]()
    for peer in peers:
        run = Run(peer, chosen.peers_dir / peer.name, chosen.peers_dir)
        with run.attempt():
            install(peer, run.folder, chosen.python)
            if peer.model:
                reshape_model(chosen.peers_dir, chosen.python)
        if run.failure:
            failures[peer.name] = run.failure
    return failures


def at_home(chosen: argparse.Namespace, peer: Peer, temporary: Path, failure: str = "") -> Run:
    """A server with an empty home folder, in which lies the model that it would download."""
    run = Run(peer, chosen.peers_dir / peer.name, temporary / peer.name, failure)
    run.home.mkdir()
    if peer.model and not failure:
        model = run.home / peer.model
        model.parent.mkdir(parents=True)
        model.symlink_to(chosen.peers_dir / "model")
    return run


def told(peer: Peer, folder: Path) -> results.Figures:
    """What the file says about a server."""
    return {
        "version": version(peer, folder),
        "package": peer.packages[0] if peer.packages else "",
        "embeds with": peer.embedding,
        "for": peer.purpose,
        "shared": peer.shared,
        "alone": peer.alone,
    }


def merge(
    figures: results.Figures, part: str, conditions: Mapping[str, object], measured: Mapping[str, results.Figures]
) -> None:
    """Put measured servers in the place of what the file said of them; where conditions differ, drop the others."""
    before: results.Figures = figures["parts"].get(part, {"servers": {}})
    others: results.Figures = before["servers"] if before.get("conditions") == conditions else {}
    figures["parts"][part] = {
        "date": datetime.now(UTC).date().isoformat(),
        "conditions": conditions,
        "servers": {**others, **measured},
    }


def measure_cost(
    chosen: argparse.Namespace, runs: Sequence[Run]
) -> tuple[Mapping[str, object], Mapping[str, results.Figures]]:
    texts = [each.text for each in memories(chosen.records, seed=7)]
    costs = cost.measure(runs, texts, chosen.rounds)
    made = {each.run.peer.name: results.of_cost(each) for each in costs if not each.run.failure}
    return {"records": len(texts), "rounds": chosen.rounds, "cores": os.cpu_count()}, made


def measure_retrieval(
    chosen: argparse.Namespace, runs: Sequence[Run]
) -> tuple[Mapping[str, object], Mapping[str, results.Figures]]:
    samples = questions.retrieval_samples(chosen.retrieval, chosen.sample, chosen.questions)
    return sizes(samples), asked(chosen, runs, samples, questions.retrieval)


def measure_answers(
    chosen: argparse.Namespace, runs: Sequence[Run]
) -> tuple[Mapping[str, object], Mapping[str, results.Figures]]:
    samples = [questions.history(folder, chosen.history_sample) for folder in chosen.histories]
    return sizes(samples), asked(chosen, runs, samples, questions.answers)


def sizes(samples: Sequence[questions.Sample]) -> Mapping[str, object]:
    return {each.name: {"records": len(each.texts), "questions": len(each.questions)} for each in samples}


def asked(
    chosen: argparse.Namespace,
    runs: Sequence[Run],
    samples: Sequence[questions.Sample],
    measure: Callable[[Run, questions.Sample], questions.Tally],
) -> Mapping[str, results.Figures]:
    """Every sample in a memory of its own."""
    made = dict[str, results.Figures]()
    for run in runs:
        tallies = dict[str, questions.Tally]()
        with run.attempt():
            for sample in samples:
                tallies[sample.name] = measure(emptied(chosen, run, sample.name), sample)
            made[run.peer.name] = results.of_questions(tallies)
        print(f"  {run.peer.name}: {made.get(run.peer.name, run.failure)}", flush=True)
    return made


def emptied(chosen: argparse.Namespace, run: Run, name: str) -> Run:
    """The same server in another home; what it writes to standard error stays in the first."""
    folder = run.home / name
    folder.mkdir()
    return at_home(chosen, run.peer, folder)


def measure_writers(
    chosen: argparse.Namespace, runs: Sequence[Run]
) -> tuple[Mapping[str, object], Mapping[str, results.Figures]]:
    texts = sharing.numbered([each.text for each in memories(sharing.WRITERS * sharing.EACH, seed=11)])
    made = dict[str, results.Figures]()
    for run in runs:
        if not run.peer.shared:
            made[run.peer.name] = {"failure": run.peer.alone}
            continue
        rounds = [sharing.Written() for _ in range(chosen.writer_rounds)]
        with run.attempt():
            for number, written in enumerate(rounds):
                sharing.write_together(emptied(chosen, run, f"round{number}"), texts, written)
            made[run.peer.name] = results.of_writers(rounds)
        print(f"  {run.peer.name}: {made.get(run.peer.name, run.failure)}", flush=True)
    return {"clients": sharing.WRITERS, "texts each": sharing.EACH, "rounds": chosen.writer_rounds}, made


def measure_lag(
    chosen: argparse.Namespace, runs: Sequence[Run]
) -> tuple[Mapping[str, object], Mapping[str, results.Figures]]:
    texts = sharing.numbered([each.text for each in memories(sharing.LAGS + 1, seed=13)])
    made = dict[str, results.Figures]()
    for run in runs:
        if not run.peer.shared:
            made[run.peer.name] = {"failure": run.peer.alone}
            continue
        with run.attempt():
            made[run.peer.name] = results.of_lags(sharing.lags(run, texts))
        print(f"  {run.peer.name}: {made.get(run.peer.name, run.failure)}", flush=True)
    return {"stores": sharing.LAGS, "longest": sharing.LAG_SECONDS}, made


PARTS: Mapping[str, Part] = {
    "cost": measure_cost,
    "retrieval": measure_retrieval,
    "answers": measure_answers,
    "writers": measure_writers,
    "lag": measure_lag,
}

if __name__ == "__main__":
    main()

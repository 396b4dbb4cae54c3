"""The comparison with other memory servers: what it counts, and that its pages say what its file says."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import page, results, sharing
from benchmarks.peers.cost import Cost, fill, queries, search
from benchmarks.peers.questions import Question, Sample, answers, retrieval, retrieval_samples, shows
from benchmarks.peers.running import Run, holds
from benchmarks.peers.servers import HTTP_CLIENT, OURS, Call, Peer
from benchmarks.peers.sharing import Written, lags, write_together
from benchmarks.stdio import Client
from tests.http_service import serving

TEXTS = ("The heron nests by the northern weir in March.", "Grease the lathe with camellia oil before winter.")
SMALL = r"""
import json, pathlib, re, sys
kept, loses = pathlib.Path("memory"), int(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    called = asked.get("params", {})
    given, said = called.get("arguments", {}), ""
    is_refused = "words" in given
    if is_refused:
        said = "words: unexpected argument"
    elif called.get("name") == "store":
        if not loses or int(given["number"]) % loses:
            with kept.open("a") as file:
                file.write(json.dumps(given["text"]) + "\n")
    elif called.get("name") == "search":
        wanted = set(re.findall(r"\w+", given["query"]))
        lines = kept.read_text().splitlines() if kept.exists() else []
        best = sorted(lines, key=lambda each: -len(wanted & set(re.findall(r"\w+", each))))
        said = "[" + ", ".join(best[: given["limit"]]) + "]"
    if "id" in asked:
        result = {"content": [{"type": "text", "text": said}], "isError": is_refused}
        print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""
"""A server that keeps texts in a file, and refuses words.

It says that it stored every one, and drops one in as many as it is told.
"""


def small(home: Path, loses: int = 0) -> Run:
    def store(number: int, text: str) -> Call:
        return "store", {"number": number, "text": text}

    peer = Peer(
        name="small", purpose="", embedding="none",
        command=(sys.executable, "-c", SMALL.replace("{", "{{").replace("}", "}}"), str(loses)),
        store=store, search=lambda query, limit: ("search", {"query": query, "limit": limit}),
    )  # fmt: skip
    return Run(peer, home, home)


def test_a_server_that_does_not_start_is_left_out_with_its_first_error(tmp_path: Path) -> None:
    failing = replace(OURS, name="failing", command=(sys.executable, "-c", "print(1 / 0)"))
    run = Run(peer=failing, folder=tmp_path, home=tmp_path)
    fill([Cost(run)], TEXTS)
    assert run.failure == "ZeroDivisionError: division by zero"


def test_a_server_that_refuses_a_text_is_left_out_with_what_it_answered(tmp_path: Path) -> None:
    def store(number: int, text: str) -> Call:
        return "store", {"words": text}

    run = Run(peer=replace(small(tmp_path).peer, store=store), folder=tmp_path, home=tmp_path)
    fill([Cost(run)], TEXTS)
    assert "words" in run.failure


def test_a_server_is_measured_and_finds_what_was_stored(tmp_path: Path) -> None:
    run = Run(peer=OURS, folder=tmp_path, home=tmp_path)
    cost = Cost(run)
    fill([cost], TEXTS)
    search(cost, queries(TEXTS))
    assert (run.failure, cost.found, cost.asked) == ("", 1, 1)
    assert all(min(values) > 0 for values in cost.figures.values())


def test_questions_count_where_the_text_or_its_answering_words_come_back(tmp_path: Path) -> None:
    asked = [
        Question("where nests the heron", TEXTS[:1], "northern  ?weir"),
        Question("heron", ["Nobody said this."], "x{9}"),
    ]
    sample = Sample("made", TEXTS, asked)
    assert retrieval(small(tmp_path), sample).passed == {"found": 1}
    told = answers(small(tmp_path), Sample("made", [f"{TEXTS[0]} {'and so on ' * 300}", "The last."], asked))
    assert told.passed == {"search 300": 1, "search 1000": 1}


def test_a_text_in_pieces_is_found_by_twenty_words_in_a_row() -> None:
    text = " ".join(f"w{number}" for number in range(40))
    assert shows(f'["{text[20:120]}"]', text)
    assert not shows(text[:60], text)
    assert holds(r'{"text": "He said \"no\" \u2014 caf\u00e9\nnew"}', 'He said "no" — café\nnew')


def test_a_sample_has_the_records_that_answer_its_questions_and_is_the_same_each_time(tmp_path: Path) -> None:
    sets = ("locomo", "prefeval", "cosqa")
    made = [
        {"id": f"{name}{n}", "group": name, "dataset": name, "text": f"{name} {n}"} for name in sets for n in range(50)
    ]
    asked = [{**each, "category": "", "query": each["id"], "gold": [each["id"]]} for each in made[::5]]
    for name, rows in (("memories", made), ("queries", asked)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    samples = retrieval_samples(tmp_path, records=12, questions=4)
    assert samples == retrieval_samples(tmp_path, records=12, questions=4)
    assert [(len(each.texts), len(each.questions)) for each in samples] == [(12, 4)] * 3
    assert all(text in each.texts for each in samples for question in each.questions for text in question.texts)


def test_what_was_acknowledged_and_is_gone_counts_as_lost_and_a_killed_writer_writes_no_more(tmp_path: Path) -> None:
    written = Written()
    write_together(small(tmp_path, loses=10), sharing.numbered(["heron", "weir", "lathe", "oil"] * 25), written)
    lost = {
        text for number, text in enumerate(sharing.numbered(["heron", "weir", "lathe", "oil"] * 25)) if number % 10 == 0
    }
    assert set(written.lost) == lost & set(written.acknowledged)
    assert 75 + sharing.KILLED_AFTER <= len(written.acknowledged) < 100
    assert results.of_writers([written])["lost"]["of"] == len(written.acknowledged)


def test_a_lag_is_the_time_until_another_client_finds_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LAG_SECONDS", 0.1)
    measured = lags(small(tmp_path, loses=3), [f"heron {number}" for number in range(8)])
    assert [each is None for each in measured] == [False, False, True, False, False, True, False]
    assert results.of_lags(measured)["found"]["hits"] == 5


def test_a_client_over_http_is_a_process_like_the_others() -> None:
    class Echo:
        def respond(self, path: str, key: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
            return 200, json.dumps({"id": body.get("id"), "result": {"path": path, "asked": body["method"]}}).encode()

    with serving(Echo()) as address:
        client = Client([*HTTP_CLIENT[:2], f"{address}/mcp"], {})
        client.initialize()
        assert client.request("tools/list", {}) == {"path": "/mcp", "asked": "tools/list"}
        client.end(1.0)


def test_an_interval_is_wilsons() -> None:
    assert results.share(18, 20) == {"hits": 18, "of": 20, "low": 69.9, "high": 97.2}


def test_the_pages_say_what_the_file_says() -> None:
    figures = results.read()
    again = "python -m benchmarks.peers.page"
    assert page.PAGE.read_text("utf-8") == page.comparison(figures), again
    readme = page.README.read_text("utf-8")
    assert readme == page.with_block(readme, figures), again
    ahead, behind = page.block(figures).split("\n\n")
    assert "|CPU of a search among 50 texts|16 ms|1 ms (2 servers)|" in behind.splitlines()
    assert "|0 of 87|0 of 87 (4 servers) to 54 of 90 (server-memory)|" in ahead


def test_every_figure_in_which_another_is_better_is_named() -> None:
    """The better one is less for a cost, more for a share that was found."""
    mine, other = {"value": 9.0, "low": 8.0, "high": 9.9}, {"value": 1.0, "low": 1.0, "high": 1.0}
    costs = dict.fromkeys(("first", "first_cpu", "private", "store", "store_cpu", "search_cpu"), other)
    parts: dict[str, Any] = {
        "cost": {"servers": {OURS.name: {**costs, "search": mine}, "quick": {**costs, "search": other}}},
        "retrieval": {"servers": {
            OURS.name: {"locomo": {"found": results.share(3, 9)}}, "quick": {"locomo": {"found": results.share(2, 9)}},
        }},
    }  # fmt: skip
    made: dict[str, Any] = {"servers": {OURS.name: {}, "quick": {}}, "parts": parts}
    assert page.behind(made) == ["- **Search**: this server 9.0 ms (8.0–9.9); quick 1.0 ms (1.0–1.0)."]

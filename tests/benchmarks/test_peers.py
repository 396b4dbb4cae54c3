"""The comparison with other memory servers: one that fails does not end it, and one that runs is measured."""

import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.peer_servers import OURS, Call
from benchmarks.peers import Run, fill, queries, search, shown

TEXTS = ("The heron nests by the northern weir in March.", "Grease the lathe with camellia oil before winter.")


def test_a_server_that_does_not_start_is_left_out_with_its_first_error(tmp_path: Path) -> None:
    failing = replace(OURS, name="failing", command=(sys.executable, "-c", "print(1 / 0)"))
    run = Run(peer=failing, folder=tmp_path, home=tmp_path)
    fill([run], TEXTS)
    assert run.failure == "ZeroDivisionError: division by zero"


def test_a_server_that_refuses_a_text_is_left_out_with_what_it_answered(tmp_path: Path) -> None:
    def store(number: int, text: str) -> Call:
        return "remember", {"words": text}

    refusing = replace(OURS, store=store)
    run = Run(peer=refusing, folder=tmp_path, home=tmp_path)
    fill([run], TEXTS)
    assert "words" in run.failure


def test_a_server_is_measured_and_finds_what_was_stored(tmp_path: Path) -> None:
    run = Run(peer=OURS, folder=tmp_path, home=tmp_path)
    fill([run], TEXTS)
    search(run, queries(TEXTS))
    assert (run.failure, run.found, run.asked) == ("", 1, 1)
    assert all(min(values) > 0 for values in run.figures.values())
    assert shown([run]).row_count == 1

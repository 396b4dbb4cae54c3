"""A process that is killed while it writes the files of an index leaves them whole, or unused."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mcp_memory.stores.index_files import IndexFiles
from tests.forked import ForkedProcess

WRITER = """
import itertools, sys
from pathlib import Path
import numpy as np
from mcp_memory.stores.index_files import IndexFiles

files = IndexFiles(Path(sys.argv[1]), dict, int)
for change in itertools.count(files.newest("words") + 1):
    files.save("words", change, {name: np.full(20_000, change) for name in "abc"})
    print(change, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_files_are_whole_whenever_their_writer_is_killed(tmp_path: Path) -> None:
    """L1.2: two write, at random moments one is killed; whatever is read is of one change, and never goes back."""
    rng = random.Random(1)
    files, newest = IndexFiles(tmp_path, dict, int), 0
    for _ in range(12):
        writers = [ForkedProcess(str(tmp_path), code=WRITER, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline()
        time.sleep(rng.random() / 20)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
        change, arrays = files.load("words", 1_000_000) or (0, {})
        assert change > newest
        assert {name: np.unique(array).tolist() for name, array in arrays.items()} == {name: [change] for name in "abc"}
        newest = change
    files.save("words", 1_000_000, {"a": np.zeros(1)})  # After whatever the killed were writing.
    assert len(list((tmp_path / "words").iterdir())) == 1  # Nothing that the killed left behind.

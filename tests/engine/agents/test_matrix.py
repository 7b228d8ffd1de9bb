"""The table of what agents were measured to do: no row is lost to another probe, nor to a table that cannot be read."""

import os
import subprocess
import sys
from pathlib import Path

from holdfast.engine.agents.matrix import AgentMeasurement, read_matrix, save_measurement
from holdfast.engine.home import Home

WRITER = """
import sys
from holdfast.engine.agents.matrix import AgentMeasurement, save_measurement
from holdfast.engine.home import Home
home = Home(sys.argv[1])
for number in range(20):
    save_measurement(home, AgentMeasurement(agent=f"{sys.argv[2]}-{number}", when="now", notes=["x" * 2000]))
"""


def test_probes_at_the_same_time_all_keep_their_rows(tmp_path: Path) -> None:
    home = os.fspath(tmp_path / "home")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, home, name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(read_matrix(Home(home))) == sorted(f"{name}-{number}" for name in "abc" for number in range(20))


def test_a_table_that_cannot_be_read_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    home = os.fspath(tmp_path)
    foreign = b'{"old": {"agent": "old", "when": 5}}'
    (tmp_path / "agents.json").write_bytes(foreign)
    aside = save_measurement(Home(home), AgentMeasurement(agent="new", when="now"))
    assert aside is not None
    assert Path(aside).read_bytes() == foreign
    assert list(read_matrix(Home(home))) == ["new"]
    assert save_measurement(Home(home), AgentMeasurement(agent="newer", when="now")) is None
    assert list(read_matrix(Home(home))) == ["new", "newer"]

"""Other users of the same machine."""

import os
from pathlib import Path

from tests.support.cli_stage import HELLO, Stage


def test_nothing_of_a_run_can_be_read_by_others_in_an_open_home(stage: Stage) -> None:
    """The home was there before, and everybody may look into it."""
    os.makedirs(stage.home, exist_ok=True)
    os.chmod(stage.home, 0o755)
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    ours = [*Path(stage.home).glob("catalog*"), Path(stage.home, "runs"), Path(stage.home_of(run))]
    assert [str(path) for path in ours if path.stat().st_mode & 0o077] == []

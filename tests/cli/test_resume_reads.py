"""What a session reads and loads before it works: no more often, and no more, than it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.program import Program
from tests.support.cli_stage import HELLO, Stage

_RESUME = """\
import json, os, sys
opened = []
sys.addaudithook(lambda event, arguments: event == "open" and opened.append(arguments[0]))
from holdfast.app.cli import main
assert main.main(["resume", *sys.argv[1:], "--quiet"]) == 0
config = os.environ["HOLDFAST_CONFIG"]
os.write(1, json.dumps({"config": opened.count(config), "loaded": [*sys.modules]}).encode())
"""
_NOT_NEEDED = {
    "difflib",  # no text was compared
    "holdfast.agents.runtimes.container",  # nor sandbox or tmux: the agent runs on this machine
    "holdfast.agents.runtimes.sandbox",
    "holdfast.agents.runtimes.tmux",
    "holdfast.app.cli.live.rich_view",  # stderr is no terminal
    "holdfast.app.text.digest",  # with --quiet it is not shown
    "holdfast.app.text.resume_report",
    "holdfast.engine.queries.resumable",  # the run was named
}


def resumed(holdfast: Program, run: str, config: Path) -> dict[str, list[str] | int]:
    environment = {**os.environ, "HOLDFAST_HOME": holdfast.home, "HOLDFAST_CONFIG": os.fspath(config)}
    done = subprocess.run(
        [sys.executable, "-c", _RESUME, run], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str] | int] = json.loads(done.stdout)
    return found


def test_resume_reads_the_config_for_its_questions_and_for_the_session(stage: Stage, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("", encoding="utf-8")
    run = stage.holdfast("plan", "Say hello", "--agent", stage.book(HELLO), "--json").object["run"]
    found = resumed(stage.holdfast, run, config)
    assert isinstance(found["config"], int)
    assert found["config"] <= 4, "the store's place, the questions, the warning about costs, the session"
    assert isinstance(found["loaded"], list)
    assert not _NOT_NEEDED.intersection(found["loaded"])
    assert stage.file(run, "hello.txt") == "hello"

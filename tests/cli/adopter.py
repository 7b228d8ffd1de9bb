"""Runs `holdfast adopt` and what follows it, for a user with a home folder of their own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.program import Program, failpoint_environment
from tests.support.cli_stage import Stage


class Adopter:
    """Runs `holdfast` as a user with a home folder of their own, and with a playbook for every agent."""

    def __init__(self, holdfast: Program, stage: Stage, user_home: Path) -> None:
        self._holdfast = holdfast
        self.stage = stage
        self.env = {"HOME": str(user_home), "HOLDFAST_PLAYBOOK_STATE": str(user_home / "playbook")}

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        return self._holdfast(*arguments, code=code, env=self.env)

    def killed(self, failpoint: str, *arguments: str) -> None:
        folder = os.path.join(self.stage.folder, "failpoint")
        os.mkdir(folder)
        environment = {**self.env, **failpoint_environment(folder, failpoint)}
        self._holdfast(*arguments, code=-signal.SIGKILL, cold=True, env=environment)

    def started(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "holdfast", *arguments, "--agent", self.stage.book()]
        environment = {**os.environ, **self.env, "HOLDFAST_HOME": self.stage.home}
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def states(self, run: str) -> dict[str, str]:
        return {name: task["status"] for name, task in self("show", run, "--json").object["state"]["tasks"].items()}

    def adopt(self, path: Path, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = self("adopt", str(path), "--json", *arguments).object
        return found

    def events(self, run: str, kind: str) -> list[dict[str, Any]]:
        return [json.loads(line)["data"] for line in self("logs", run, "--json", "--type", kind).lines]

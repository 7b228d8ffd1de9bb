"""The program as a user has it: a real process, with its exit code, its stdout and its stderr."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.wait import PATIENCE

UNPRIVILEGED = str(Path(__file__).with_name("unprivileged.py"))


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[Any]:
        """What `--json` printed: one object a line."""
        return [json.loads(line) for line in self.lines]

    @property
    def object(self) -> Any:
        (only,) = self.objects
        return only

    @property
    def complaint(self) -> str:
        """The one line on stderr that says what was wrong, without the program's name."""
        (line,) = self.err.splitlines()
        assert line.startswith("holdfast: "), line
        return line.removeprefix("holdfast: ")


class _Started(subprocess.Popen[bytes]):
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:  # the test failed, and nobody would end it
            self.kill()
        super().__exit__(kind, error, traceback)


class Program:
    """Runs `holdfast` in a folder of its own, with a home of its own and nothing of the caller's environment."""

    def __init__(self, home: str, cwd: str, nursery: Nursery | None = None, store: str | None = None) -> None:
        """With a `nursery`, what is run to its end comes from there: it and all that it starts need no start-up.

        With a `store`, runs are kept in that database.
        """
        self.home = home
        self.store = store
        self.cwd = cwd
        self._nursery = nursery

    def elsewhere(self, *, home: str | None = None, cwd: str | None = None) -> Self:
        """The same, in another home or another folder."""
        return type(self)(home or self.home, cwd or self.cwd, self._nursery, self.store)

    def __call__(self, *arguments: str, code: int = 0, cold: bool = False, **how: Any) -> Outcome:
        """Run to the end. The exit code must be the one that is expected, and no traceback may be printed.

        `cold` for one that must have its own interpreter: to know it by its environment, to start other modules by
        it, or to be the parent of all that it starts, as one that detaches must.
        """
        cold = cold or "--detach" in arguments or not how.keys() <= {"env"}
        if self._nursery is not None and not cold:
            environment = self.environment(how.get("env"))
            return expected(Outcome(*self._nursery.run(list(arguments), self.cwd, environment)), code)
        with self.start(*arguments, **how) as process:
            return finished(process, code)

    def start(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        unprivileged: bool = False,
        **how: Any,
    ) -> subprocess.Popen[bytes]:
        """Start it, its output in pipes. `unprivileged` obeys file modes, also when root runs the tests."""
        command = [sys.executable, "-P", *([UNPRIVILEGED] if unprivileged else []), "-m", "holdfast", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return _Started(command, **{**pipes, "cwd": self.cwd, "env": self.environment(env), **how})

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        passed_on = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        folders = {f"XDG_{kind.upper()}_HOME": os.path.join(self.home, kind) for kind in ("config", "state")}
        store = {"HOLDFAST_STORE": self.store} if self.store is not None else {}
        return {**passed_on, "LC_ALL": "C.UTF-8", "HOLDFAST_HOME": self.home, **store, **folders, **(more or {})}


def failpoint_environment(folder: str, what: str) -> dict[str, str]:
    """For the environment of one that is to be killed. What it passes is written down in this folder."""
    passes = Path(folder, "passes")
    passes.touch()
    return {FAILPOINT_VARIABLE: what, FAILPOINT_FILE_VARIABLE: str(passes)}


def finished(process: subprocess.Popen[bytes], code: int = 0) -> Outcome:
    """Wait for the end of a started program."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except BaseException:
        process.kill()
        raise
    said = ((part or b"").decode(errors="replace") for part in (out, err))
    return expected(Outcome(process.returncode, *said), code)


def expected(outcome: Outcome, code: int) -> Outcome:
    assert_no_noise(outcome)
    assert outcome.code == code, outcome
    return outcome


def assert_no_noise(outcome: Outcome) -> None:
    """Nothing that only a programmer understands."""
    for noise in ("Traceback", "Exception ignored", "a bug in Holdfast", "Warning:"):
        assert noise not in outcome.out + outcome.err, outcome

"""Child processes that start in milliseconds (forked by a server that has everything imported) and can be killed."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from tests.support.wait import PATIENCE

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        "tests.support.children",
        "tests.support.effect_child",
        "tests.support.machine_child",
        "tests.support.story_steps",
        "tests.support.conversations",
    ]
)


class Child:
    """A process and the line on which it reports. What it reported before it died can still be heard."""

    def __init__(self, process: ForkServerProcess, reports: "Connection[Any, Any]") -> None:
        self._process = process
        self._reports = reports

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def fileno(self) -> int:
        """For `select`: ready when there is a report, or the child is dead."""
        return self._reports.fileno()

    def hear(self) -> str | None:
        """The next report; None when the child is dead and has no more."""
        assert self._reports.poll(PATIENCE), "the child neither reports nor dies"
        try:
            return self._reports.recv_bytes().decode()
        except EOFError:
            return None

    def hear_some(self, count: int) -> list[str]:
        heard: list[str] = []
        while len(heard) < count and (report := self.hear()) is not None:
            heard.append(report)
        return heard

    def hear_now(self) -> list[str]:
        """What it has reported up to this moment."""
        heard: list[str] = []
        while self._reports.poll(0) and (report := self.hear()) is not None:
            heard.append(report)
        return heard

    def hear_all(self) -> list[str]:
        return list(iter(self.hear, None))

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has closed all that it held."""
        self._process.kill()
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None

    def wait(self) -> int:
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None, "the child does not end"
        return self._process.exitcode

    def close(self) -> None:
        self.kill()
        self._process.close()
        self._reports.close()


KILLED = -signal.SIGKILL


@contextmanager
def child(work: Callable[..., None], *arguments: object) -> Iterator[Child]:
    """Run `work(report, *arguments)` in a process of its own; `report` sends a line to this one.

    `work` must stand in a module that can be imported (not in a test file).
    """
    ours, theirs = _FORKING.Pipe(duplex=False)
    process = _FORKING.Process(target=_run, args=(theirs, work, arguments), daemon=True)
    process.start()
    theirs.close()
    running = Child(process, ours)
    try:
        yield running
    finally:
        running.close()


def _run(reports: "Connection[Any, Any]", work: Callable[..., None], arguments: tuple[object, ...]) -> None:
    work(lambda report: reports.send_bytes(report.encode()), *arguments)

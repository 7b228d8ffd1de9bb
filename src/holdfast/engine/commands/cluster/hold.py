"""A session's process, as its worker sees it: started, watched, ended with everything that it started.

The process tells several times in the time of its lease that its event loop runs. When it falls silent, as a frozen one
does, its worker kills it and its agents before the lease is over: then no two machines work on the run at once.
"""

import asyncio
import os
import socket
import subprocess
from contextlib import suppress

import msgspec

from holdfast.engine.commands.cluster.session_report import ReportKind, SessionReport
from holdfast.engine.commands.cluster.setbacks import set_back
from holdfast.engine.commands.detach import RUNNER_LOG
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log
from holdfast.engine.workspace.repository import FD_MARKER_FILE
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.process.fd_marker import iter_processes_holding
from holdfast.leaf.process.identity import identify, kill_processes, kill_until_none_left
from holdfast.leaf.process.own_program import holdfast_command
from holdfast.store.base import Position

START_S = 60.0  # until its first sign of life
_PROGRAM = "holdfast.engine.commands.cluster.session_program"
_FAILPOINT = failpoint_pair("worker.session")
_SILENCE_PART = 0.5  # of the lease; what was left of it at the last sign is longer, by the interval of renewals
_LONGEST_SILENCE_S = 30.0  # a session that hangs renews its lease, so a long one is not waited for
_CHECKS = 16  # in the time of silence


def silence_s(home: Home) -> float:
    """Return how long a session may be silent before it is killed."""
    return min(_SILENCE_PART * home.lease_s, _LONGEST_SILENCE_S)


class Hold:
    """One run on this machine, from the start of its session's process to its end."""

    def __init__(self, home: Home, run_id: str) -> None:
        self.run_id = run_id
        self.waits_for: str | None = None  # who else owns the run
        self._home = home
        self._process: asyncio.subprocess.Process | None = None
        self._report: SessionReport | None = None
        self._silence_s = silence_s(home)
        self._last_sign = 0.0
        self._is_draining = False

    async def run(self, options: list[str]) -> SessionReport:
        """Start the process, and return what it reported, once nothing of it is alive."""
        folder = self._home.folder(self.run_id)
        make_directories(folder)
        end = await self._end_of_log()
        self._last_sign = asyncio.get_running_loop().time() + START_S - self._silence_s
        with open(os.path.join(folder, RUNNER_LOG), "ab") as log:
            _FAILPOINT.before()
            self._process = await asyncio.create_subprocess_exec(
                *holdfast_command(self.run_id, module=_PROGRAM),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env={**os.environ, "HOLDFAST_HOME": self._home.path},
            )
            _FAILPOINT.after()
        self._send(msgspec.json.encode(options))  # not as arguments, which every user of the machine sees
        watching = asyncio.create_task(self._watch())
        try:
            await self._read()
            code = await self._process.wait()
        finally:
            watching.cancel()
            await asyncio.shield(self.kill())
        return self._report or await self._death(code, end)

    async def _end_of_log(self) -> Position | None:
        with suppress(HoldfastError):
            return await end_of_log(self._home, self.run_id)
        return None

    async def _death(self, code: int, end: Position | None) -> SessionReport:
        """The log has the deaths of sessions that began. Others are counted, so that they are not retried for ever."""
        if self._is_draining or end is None or await self._end_of_log() != end:
            return SessionReport(ReportKind.DIED, detail=f"its session ended with code {code}")
        log = os.path.join(self._home.folder(self.run_id), RUNNER_LOG)
        problem = f"its process ended with code {code} before the session began; see {log} on {socket.gethostname()}"
        return await set_back(self._home, self.run_id, ReportKind.DIED, problem)

    def drain(self) -> None:
        """Ask the session to end cleanly; another worker continues."""
        self._is_draining = True
        self._send(b"drain")

    def _send(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):
                self._process.stdin.write(line + b"\n")

    async def kill(self) -> None:
        """Kill the session and everything that it started."""
        process = self._process
        if process is None:
            return
        identity = identify(process.pid) if process.returncode is None else None
        if identity is not None:
            await asyncio.to_thread(kill_processes, [identity])
        await asyncio.to_thread(kill_session_processes, self._home.folder(self.run_id))

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        if self._is_draining:
            self.drain()
        while line := await self._process.stdout.readline():
            self._last_sign = asyncio.get_running_loop().time()
            with suppress(msgspec.DecodeError):
                self._receive(msgspec.json.decode(line, type=SessionReport))

    def _receive(self, report: SessionReport) -> None:
        if report.kind is ReportKind.WAITING:
            self.waits_for = report.detail
        elif report.kind is not ReportKind.BEAT:
            self._report = report

    async def _watch(self) -> None:
        """Kill a silent session. A worker that was frozen itself hears its sessions first."""
        loop = asyncio.get_running_loop()
        while True:
            checked_at = loop.time()
            await asyncio.sleep(self._silence_s / _CHECKS)
            slept_s = loop.time() - checked_at
            if slept_s > self._silence_s:
                self._last_sign = max(self._last_sign, loop.time() - self._silence_s / 2)
            elif loop.time() - self._last_sign > self._silence_s:
                await self.kill()


def end_leftovers(home: Home, run_ids: list[str]) -> None:
    """Kill what an earlier worker of this home left behind: it was killed, and its agents may live on."""
    for run_id in run_ids:
        if os.path.exists(os.path.join(home.folder(run_id), FD_MARKER_FILE)):
            kill_session_processes(home.folder(run_id))


def kill_session_processes(folder: str) -> None:
    """Kill what sessions of this machine started for a run, and nothing of another machine that is on this host."""
    marker = os.path.join(folder, FD_MARKER_FILE)
    kill_until_none_left(lambda: iter_processes_holding(marker))

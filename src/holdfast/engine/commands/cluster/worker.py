"""A worker: takes runs from Temporal's queues and holds them, each in a process of its own, until it is drained.

Temporal only places runs. Whether a session may write is decided by its lease in the database, and whether it ended by
its log: an activity that lost its run reports a failure, so that the run is placed again.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast import __version__
from holdfast.engine.commands.cluster.engine_address import (
    HOLD_ACTIVITY,
    WORKFLOW_QUEUE,
    EngineAddress,
    queue_of,
    require_cluster_store,
)
from holdfast.engine.commands.cluster.hold import Hold, end_leftovers
from holdfast.engine.commands.cluster.session_report import ReportKind, SessionReport
from holdfast.engine.commands.cluster.temporal import connect_engine
from holdfast.engine.commands.cluster.workflow import RunWorkflow
from holdfast.engine.home import Home
from holdfast.engine.workspace.machine import machine_id
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.store.index import WorkerRow

BEAT_S = 2.0  # of the worker's row, and of its activities
DRAIN_S = 60.0  # for sessions to end cleanly; then they are killed, and continue elsewhere
_CONNECT_RETRY_S = 2.0
_FULL_DELAY_S = 3.0
_REFUSED_DELAY_S = 5.0
_FAULT_DELAY_S = 2.0

Report = Callable[[str], None]


class WorkerOptions(NamedTuple):
    engine: EngineAddress
    slots: int
    labels: tuple[str, ...] = ()
    name: str | None = None
    drain_s: float = DRAIN_S


class ClusterWorker:
    def __init__(self, home: Home, options: WorkerOptions, report: Report) -> None:
        require_cluster_store(home)
        self._home = home
        self._options = options
        self._report = report
        self._machine = machine_id(home)
        self.name = options.name or f"{socket.gethostname()}-{self._machine[:6]}"
        self._holds: dict[str, tuple[Hold, asyncio.Task[SessionReport]]] = {}
        self._drain = asyncio.Event()

    async def run(self) -> None:
        """Work until drained: by a signal, or by `holdfast worker drain`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.drain)
        await asyncio.to_thread(end_leftovers, self._home, self._local_runs())
        beating = asyncio.create_task(self._send_heartbeat())
        try:
            client = await self._connect()
            if client is not None:
                await self._serve(client, beating)
        finally:
            for hold, task in list(self._holds.values()):
                await hold.kill()
                await asyncio.wait({task}, timeout=self._options.drain_s)
            beating.cancel()
            with suppress(HoldfastError):
                await self._home.workers.forget(self.name)

    def drain(self) -> None:
        """Take nothing more, hand over what runs here, and end."""
        if not self._drain.is_set():
            self._report(f"draining: {len(self._holds)} runs are handed over")
        self._drain.set()
        for hold, _ in self._holds.values():
            hold.drain()

    def _local_runs(self) -> list[str]:
        with suppress(FileNotFoundError):
            return os.listdir(self._home.runs_folder)
        return []

    async def _connect(self) -> Client | None:
        """Wait for a server that is away. None when drained before."""
        told = False
        while not self._drain.is_set():
            try:
                return await connect_engine(self._options.engine, self.name)
            except (RuntimeError, OSError) as error:  # the client raises RuntimeError
                if not told:
                    self._report(f"Temporal at {self._options.engine} does not answer yet: {error}")
                told = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drain.wait(), _CONNECT_RETRY_S)
        return None

    async def _serve(self, client: Client, beating: asyncio.Task[None]) -> None:
        queues: Sequence[str] = [queue_of(label) for label in (None, *self._options.labels)]
        workers = [
            Worker(
                client,
                task_queue=WORKFLOW_QUEUE,
                workflows=[RunWorkflow],
                workflow_runner=UnsandboxedWorkflowRunner(),
                identity=self.name,
            ),
            *(
                Worker(
                    client,
                    task_queue=queue,
                    activities=[self.hold_run],
                    identity=self.name,
                    max_concurrent_activities=self._options.slots,
                    max_heartbeat_throttle_interval=timedelta(seconds=BEAT_S),
                    graceful_shutdown_timeout=timedelta(seconds=self._options.drain_s + BEAT_S),
                )
                for queue in queues
            ),
        ]
        serving = [asyncio.create_task(worker.run()) for worker in workers]
        labels = f", labels {', '.join(self._options.labels)}" if self._options.labels else ""
        self._report(f"worker {self.name} is ready: {self._options.slots} slots{labels}, at {self._options.engine}")
        draining = asyncio.create_task(self._drain.wait())
        await asyncio.wait({draining, beating, *serving}, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()
        self.drain()
        ending = [asyncio.create_task(worker.shutdown()) for worker in workers]
        killing = asyncio.create_task(self._kill_late())
        results = await asyncio.gather(*serving, *ending, return_exceptions=True)
        killing.cancel()
        if beating.done():
            beating.result()  # its error is what ended the worker
        for result in results:
            if isinstance(result, Exception):
                raise HoldfastError(f"the worker ended: {result}") from result

    async def _kill_late(self) -> None:
        await asyncio.sleep(self._options.drain_s)
        for hold, _ in list(self._holds.values()):
            self._report(f"{hold.run_id} did not end within {self._options.drain_s:g} s and is killed")
            await hold.kill()

    @activity.defn(name=HOLD_ACTIVITY)
    async def hold_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Hold a run until its session ended. Only a session that ended by its log is a success."""
        run_id = str(request["run_id"])
        held = self._holds.get(run_id)
        if held is None:
            if self._drain.is_set() or len(self._holds) >= self._options.slots:
                raise _retry_elsewhere("every slot is taken", _FULL_DELAY_S)
            hold = Hold(self._home, run_id)
            task = asyncio.create_task(hold.run(list(request.get("options") or [])))
            held = self._holds[run_id] = (hold, task)
            task.add_done_callback(lambda _: self._holds.pop(run_id, None))
            self._report(f"{run_id} begins")
        report = await _heartbeat_until_done(held[1])
        self._report(f"{run_id}: {_describe(report)}")
        match report.kind:
            case ReportKind.ENDED:
                return {"reason": report.reason, "detail": report.detail, "resumes_at": report.resumes_at}
            case ReportKind.DRAINED:
                raise _retry_elsewhere("handed over", 0.0)
            case ReportKind.REFUSED:
                raise _retry_elsewhere(report.detail or "refused", _REFUSED_DELAY_S)
        raise _retry_elsewhere(_describe(report), report.after_s or _FAULT_DELAY_S)

    async def _send_heartbeat(self) -> None:
        """Keep the worker's row in the database current; it says there whether someone wants it drained."""
        told = False
        while True:
            row = WorkerRow(
                name=self.name,
                machine=self._machine,
                host=socket.gethostname(),
                version=__version__,
                labels=self._options.labels,
                slots=self._options.slots,
                runs=tuple(self._holds),
                is_draining=self._drain.is_set(),
                seen_s=0.0,
            )
            try:
                if await self._home.workers.beat(row):
                    self.drain()
                told = False
            except BadInput:
                raise
            except HoldfastError as error:
                if not told:
                    self._report(f"the store does not answer: {error}")
                told = True
            await asyncio.sleep(BEAT_S)


async def _heartbeat_until_done(task: asyncio.Task[SessionReport]) -> SessionReport:
    """The session goes on when Temporal forgets this attempt: the next one waits for it, here or elsewhere."""
    while not task.done():
        activity.heartbeat()
        await asyncio.wait({task}, timeout=BEAT_S)
    return task.result()


def _retry_elsewhere(reason: str, delay_s: float) -> ApplicationError:
    benign = ApplicationErrorCategory.BENIGN  # the client logs any other with a traceback
    return ApplicationError(reason, next_retry_delay=timedelta(seconds=delay_s), category=benign)


def _describe(report: SessionReport) -> str:
    return ": ".join(part for part in (report.kind, report.reason, report.detail) if part)


async def run_worker(home: Home, options: WorkerOptions, report: Report) -> None:
    await ClusterWorker(home, options, report).run()

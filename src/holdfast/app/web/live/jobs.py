"""Work that takes a while and is watched while it is done, such as a probe of an agent. It ends with the server."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.leaf.ids import new_sid

_MAX_KEPT = 50
_MAX_LINES = 2_000

Work = Callable[[Callable[[str], None]], Awaitable[Any]]


class Job(msgspec.Struct):
    """`lines` is what it said so far."""

    id: str
    title: str
    lines: list[str] = []
    done: bool = False
    error: str | None = None
    result: Any = None


class Jobs:
    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listeners: set[asyncio.Event] = set()

    def start(self, title: str, work: Work) -> Job:
        """Start work, unless the same is being done: then return that."""
        for job in self._jobs.values():
            if job.title == title and not job.done:
                return job
        job = Job(new_sid(), title)
        self._jobs[job.id] = job
        while len(self._jobs) > _MAX_KEPT:
            self._jobs.popitem(last=False)
        self._tasks[job.id] = asyncio.create_task(self._run(job, work))
        return job

    def find(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def listen(self, wake: asyncio.Event) -> None:
        self._listeners.add(wake)

    def forget(self, wake: asyncio.Event) -> None:
        self._listeners.discard(wake)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, job: Job, work: Work) -> None:
        def say(line: str) -> None:
            if len(job.lines) < _MAX_LINES:
                job.lines.append(line)
            self._wake()

        try:
            job.result = await work(say)
        except HoldfastError as error:
            job.error = str(error)
        except OSError as error:
            job.error = str(StorageFailed.from_os_error(error))
        except Exception as error:
            job.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            job.error = job.error if job.result is not None or job.error else "it was cancelled"
            job.done = True
            self._tasks.pop(job.id, None)
            self._wake()

    def _wake(self) -> None:
        for listener in self._listeners:
            listener.set()

"""A cluster on this machine: Postgres, Temporal, workers with homes of their own, and a repository with a remote.

Workers, sessions and agents are real processes. On one host a dead owner is proved dead at once, so a take-over after a
kill does not wait for the lease; a frozen owner is waited for.
"""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from holdfast.core.events import Event
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.git.cluster.remote_refs import list_remote_refs
from holdfast.git.repository import Repository
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import ProcessIdentity, ProcessTable, identify
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.projects import Project
from tests.support.wait import PATIENCE

HEARTBEAT_S = 5.0
_CONFIG = "[cluster]\nheartbeat = {heartbeat}\nsnapshots = {snapshots}\n"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}


class Cluster:
    def __init__(self, folder: str, store: str, engine: str, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.folder = folder
        self.project = Project.make(folder)
        self.home = Home(os.path.join(folder, "user"), store)
        self.workers: list[WorkerProcess] = []
        self._store = store
        self._engine = engine
        self._config = os.path.join(folder, "config.toml")
        Path(self._config).write_text(_CONFIG.format(heartbeat=heartbeat_s, snapshots=1), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        return {
            **plain,
            **_IDENTITY,
            "HOLDFAST_STORE": self._store,
            "HOLDFAST_ENGINE": self._engine,
            "HOLDFAST_CONFIG": self._config,
            "XDG_STATE_HOME": os.path.join(self.folder, "state"),  # the playbook agent's: a `hang` happens once
        }

    def holdfast(self, *arguments: str, code: int = 0, environment: Mapping[str, str] | None = None) -> str:
        """Run a command of the user to its end, in the user's checkout."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "holdfast", *arguments],
            cwd=self.project.path,
            env={**self.environment, "HOLDFAST_HOME": self.home.path, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}: {done.stderr}"
        return done.stdout

    def as_command(self, *arguments: str) -> str:
        """A shell command of the user for a process that has neither the store nor the engine in its environment."""
        names = ("HOLDFAST_STORE", "HOLDFAST_ENGINE", "HOLDFAST_CONFIG")
        values = [f"{name}={shlex.quote(self.environment[name])}" for name in names]
        words = " ".join(f'"{argument}"' for argument in arguments)
        return f"{' '.join(values)} HOLDFAST_HOME={self.home.path} {sys.executable} -P -m holdfast {words}"

    def configure(self, text: str) -> None:
        """Add to the config of the user and of the workers."""
        with open(self._config, "a", encoding="utf-8") as file:
            file.write(text)

    def book(self, *turns: Mapping[str, Any], name: str = "book") -> str:
        """Have an agent play these turns. Returns its name."""
        path = os.path.join(self.folder, f"{name}.json")
        Path(path).write_text(json.dumps({"turns": turns, "otherwise": [{"say": "fine"}]}), encoding="utf-8")
        return f"playbook:{path}"

    def submit(self, goal: str, agent: str, *options: str) -> str:
        printed = self.holdfast("run", goal, "--on", "cluster", "--agent", agent, "--json", *options)
        return str(json.loads(printed.splitlines()[-1])["run"])

    def worker(self, name: str, *options: str, **environment: str) -> "WorkerProcess":
        found = WorkerProcess(self, name, options, environment)
        self.workers.append(found)
        return found

    def worker_in_namespace(self, name: str, namespace: str, database: str, temporal: str) -> "WorkerProcess":
        """A worker in a network namespace, which reaches the servers at these addresses only."""
        prefix = ("ip", "netns", "exec", namespace)
        options = urlsplit(self._store)
        schema = dict(parse_qsl(options.query))["search_path"]
        store = f"postgresql://{options.username}@{database}{options.path}?search_path={schema}&sslmode=disable"
        engine = f"temporal://{temporal}{urlsplit(self._engine).path}"
        found = WorkerProcess(self, name, (), {"HOLDFAST_STORE": store, "HOLDFAST_ENGINE": engine}, prefix)
        self.workers.append(found)
        return found

    def restart(self, worker: "WorkerProcess") -> "WorkerProcess":
        """The machine comes back."""
        self.workers.remove(worker)
        return self.worker(worker.name, *worker.options)

    async def state(self, run_id: str) -> RunState:
        return (await view_run(self.home, run_id)).state

    async def status(self, run_id: str) -> str:
        return str((await view_run(self.home, run_id)).status)

    async def events(self, run_id: str, kind: type[Event] = Event) -> list[Any]:
        return [event for event in events_in(await whole(self.home.store, run_id)) if isinstance(event, kind)]

    async def until_status(self, run_id: str, status: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (found := await self.status(run_id)) != status:
            assert time.monotonic() < deadline, f"{run_id} is {found}, not {status}\n{self.read_logs()}"
            await self.pause()

    def has_hung(self) -> bool:
        """True when an agent came to a `hang` that happens once."""
        return any(Path(self.folder, "state").rglob("once/*"))

    async def until_hung(self) -> None:
        await self.until(self.has_hung)

    def forget_hangs(self) -> None:
        """The next agent hangs again."""
        for path in Path(self.folder, "state").rglob("once/*"):
            path.unlink()

    def forget_passes(self) -> None:
        """The next process that is armed dies at its own first pass."""
        Path(self.folder, "passes").unlink(missing_ok=True)

    async def until_snapshot_during_turn(self, run_id: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not any(branch.during for branch in (await self.state(run_id)).branches.values()):
            assert time.monotonic() < deadline, self.read_logs()
            await self.pause()

    async def files_of(self, run_id: str) -> set[str]:
        """The files on the run's branch, as the remote has them."""
        remote = await list_remote_refs(Repository(self.project.remote), self.project.remote, run_id)
        return set(
            self.project.git("ls-tree", "--name-only", remote.named["heads/main"], at=self.project.remote).split()
        )

    async def owner_of(self, run_id: str, other_than: "WorkerProcess | None" = None) -> "WorkerProcess":
        """Wait until a worker's session owns the run."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            holder = await self.home.store.holder(run_id)
            for worker in self.workers:
                if worker is not other_than and holder is not None and holder.pid in worker.session_pids():
                    return worker
            await self.pause()
        raise AssertionError(f"nobody owns {run_id}\n{self.read_logs()}")

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.read_logs()
            await self.pause()

    @staticmethod
    async def pause() -> None:
        """Between two looks at what other processes do."""
        await asyncio.sleep(0.05)

    def read_logs(self) -> str:
        logs = [worker.read_log() for worker in self.workers]
        runners = sorted(Path(self.folder).glob("*/runs/*/runner.log"))
        logs += [f"== {path}\n{path.read_text(encoding='utf-8', errors='replace')[-3000:]}" for path in runners]
        return "\n".join(logs)

    def processes_of(self, run_id: str) -> list[ProcessIdentity]:
        return marked_processes(RUN_MARK, run_id)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


class WorkerProcess:
    """A worker with a home of its own, which makes it a machine of its own."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        options: Sequence[str],
        environment: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.options = options
        self.home = os.path.join(cluster.folder, name)
        self._log = os.path.join(cluster.folder, f"{name}.log")
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-m", "holdfast", "worker", "--name", name, "--slots", "3", *options],
                env={**cluster.environment, "HOLDFAST_HOME": self.home, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def read_log(self) -> str:
        return f"== {self.name}\n{Path(self._log).read_text(encoding='utf-8', errors='replace')}"

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.read_log()
        return "is ready" in self.read_log()

    def tree(self) -> list[ProcessIdentity]:
        """The worker with its sessions and their agents."""
        me = identify(self.process.pid)
        return [me, *ProcessTable().descendants(me)] if me is not None else []

    def session_pids(self) -> list[int]:
        me = identify(self.process.pid)
        return [child.pid for child in ProcessTable().children_of(me)] if me is not None else []

    def kill(self) -> None:
        """SIGKILL everything at once, as the loss of a machine does."""
        _signal(self.freeze(), signal.SIGKILL)  # nobody sees another one die first
        self.process.wait()

    def kill_alone(self) -> None:
        """SIGKILL the worker alone: its sessions must end by themselves."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> list[ProcessIdentity]:
        """Stop everything, as a machine that hangs does. Returns what `thaw` continues."""
        frozen: list[ProcessIdentity] = []
        while found := [each for each in self.tree() if each not in frozen]:
            _signal(found, signal.SIGSTOP)
            frozen += found
        return frozen

    @staticmethod
    def thaw(frozen: Sequence[ProcessIdentity]) -> None:
        _signal(frozen, signal.SIGCONT)

    def terminate(self) -> int:
        """SIGTERM, and wait until it has drained. Returns its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


def _signal(processes: Sequence[ProcessIdentity], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            if process.is_alive():
                os.kill(process.pid, number)

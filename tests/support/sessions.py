"""A session of a run, opened part by part: for direct tests of the runner, the steps, the effects and the workspace.

Everything is real: the files store, git, and playbook agents as processes. The agents get no MCP tools, so a worker
reports nothing: use the workflow `solo`, which asks for no case.
"""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.core.events import Event
from holdfast.core.state import RunState
from holdfast.core.task_state import Task
from holdfast.core.work.names import worktree_names
from holdfast.engine.agents.conversations import ConversationContext, Conversations
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.checks.validators import CheckPlace
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.hooks.hooks import HookRunner
from holdfast.engine.inbox.handle import InboxHandler
from holdfast.engine.session.runner import Runner
from holdfast.engine.session.task_steps import StepCallbacks, TaskSteps
from holdfast.engine.workspace.confinement import runtime_for_hooks
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.store.files.store import FileStore
from tests.support.conversations import DEADLINES
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.projects import Project

E = TypeVar("E", bound=Event)

HANG = {"hang": {"how": "turn", "seconds": 3600, "once": True}}
WRITE_HELLO = {"write": {"path": "hello.txt", "text": "hello\n"}}


class RunHome(NamedTuple):
    """A home, a repository and the playbook that every agent of its runs plays."""

    home: str
    project: Project
    playbook: str

    @classmethod
    def make(cls, folder: str, *steps: Mapping[str, Any]) -> "RunHome":
        """The agent performs these steps in every turn."""
        found = cls(os.path.join(folder, "home"), Project.make(folder), os.path.join(folder, "playbook.json"))
        found.play(*steps)
        return found

    def play(self, *steps: Mapping[str, Any]) -> None:
        """What agents do from their next start on."""
        book = {"turns": [], "otherwise": [*steps, {"say": "done"}]}
        Path(self.playbook).write_text(json.dumps(book), encoding="utf-8")

    async def new_run(self, *task_ids: str, **flags: Any) -> str:
        """A planned run. Without tasks it has one, T-1: the goal."""
        goal = "write hello.txt"
        if task_ids:
            goal = os.path.join(os.path.dirname(self.playbook), "tasks.json")
            tasks = [{"id": task_id, "title": f"make {task_id}"} for task_id in task_ids]
            Path(goal).write_text(json.dumps({"tasks": tasks}), encoding="utf-8")
        settings = {"agent": f"playbook:{self.playbook}", **flags}
        return await prepare_run(Home(self.home), RunRequest(goal, self.project.path, flags=settings))

    def show(self, run_id: str, path: str) -> str:
        """A file as it is on the run's branch."""
        return self.project.show(f"{worktree_names(run_id).branch}:{path}")

    async def events(self, run_id: str, kind: type[E]) -> list[E]:
        return [event for event in events_in(await whole(FileStore(self.home), run_id)) if isinstance(event, kind)]

    async def event_types(self, run_id: str) -> list[str]:
        return [event.type for event in events_in(await whole(FileStore(self.home), run_id))]


class SessionParts(NamedTuple):
    """The parts that `run_session` puts together."""

    workspace: Workspace
    conversations: Conversations
    steps: TaskSteps
    runner: Runner
    handler: InboxHandler

    @property
    def state(self) -> RunState:
        return self.workspace.effects.run.state

    @property
    def task(self) -> Task:
        return self.state.tasks["T-1"]


@asynccontextmanager
async def open_parts(runs: RunHome, run_id: str) -> AsyncIterator[SessionParts]:
    """One session on a run. It ends all agents when the context is left."""
    async with open_workspace(Home(runs.home), run_id, "resume") as workspace:
        effects, store = workspace.effects, FileStore(runs.home)
        run, config = effects.run, run_config_for(Home(runs.home), effects.run.state)

        def hook_place(task_id: str | None, conversation_id: str | None) -> CheckPlace:
            return CheckPlace.of(workspace, task_id, runtime_for_hooks(run.state, config, task_id, conversation_id))

        hooks = HookRunner(run, effects.folder, config.settings.hooks, hook_place)
        broker = PermissionBroker(run, config.consent)
        context = ConversationContext(run_id, effects.folder, store.log(run_id), config.agents, {}, DEADLINES)
        stops: list[Runner] = []

        def stop(reason: str) -> None:
            for runner in stops:
                runner.stop(reason)

        def wake() -> None:
            for runner in stops:
                runner.wake()

        async with Conversations(run, context, broker) as conversations:
            handler = InboxHandler(run, broker, config.workflow, stop)
            steps = TaskSteps(workspace, conversations, config, hooks, StepCallbacks(handler.receive, wake))
            stops.append(Runner(run, store.inbox(run_id), steps, conversations, config))
            yield SessionParts(workspace, conversations, steps, stops[0], handler)

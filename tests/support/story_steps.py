"""What Holdfast does in a story, one step at a time: in this process, or in a child that can be killed in it."""

import asyncio
import os
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

from holdfast.engine.commands.archive import archive, reset
from holdfast.engine.commands.doctor import diagnose
from holdfast.engine.commands.publish import merge_run, push_run
from holdfast.engine.home import Home
from holdfast.engine.workspace.reconcile import reconcile_workspace
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.leaf.errors import HoldfastError

OWNER = "STORY_OWNER"  # the process that a hook, or a false git, is to kill


class Step(NamedTuple):
    """`about` is what the kind of step needs beside a task: a name, a commit, a branch."""

    kind: str
    task: str | None = None
    about: str = ""


class Scene(NamedTuple):
    """Where a step takes place."""

    home: str
    run_id: str
    common_dir: str


async def take(scene: Scene, step: Step) -> str:
    """Do it. Returns what came of it, in words."""
    match step.kind:
        case "archive":
            return str(await archive(Home(scene.home), scene.run_id))
        case "reset":
            return str(await reset(Home(scene.home), scene.run_id))
        case "merge run":
            return str(await merge_run(Home(scene.home), scene.run_id, step.about))
        case "push":
            return str(await push_run(Home(scene.home), scene.run_id))
        case "doctor":
            return await _doctor(scene)
    async with open_workspace(Home(scene.home), scene.run_id, "resume") as workspace:
        return str(await _in(workspace, step))


async def _in(workspace: Workspace, step: Step) -> object:
    match step.kind:
        case "settle":
            return [
                (settled.kind, str(settled.probe.outcome), settled.salvaged) for settled in workspace.settled_effects
            ]
        case "open":
            return (await workspace.open_worktree(step.task)).path
        case "remove":
            return await workspace.remove_worktree(step.task)
        case "reconcile":
            return [finding.message for finding in await reconcile_workspace(workspace)]
        case "snapshot" | "restore" | "commit":
            act = {"snapshot": workspace.snapshot, "restore": workspace.restore, "commit": workspace.commit}[step.kind]
            return await act(step.task, step.about)
    return await _of_task(workspace, step, step.task or "")


async def _of_task(workspace: Workspace, step: Step, task: str) -> object:
    match step.kind:
        case "keep failed":
            return await workspace.keep_failed(task, step.about)
        case "unwind failed":
            return await workspace.unwind_failed(task)
        case "merge":
            return await workspace.merge([task])
    raise AssertionError(step)


async def _doctor(scene: Scene) -> str:
    """As `holdfast doctor --fix` does: each repair on its own."""
    outcomes = []
    for ailment in await diagnose(Home(scene.home), [scene.common_dir]):
        outcome = "a person must"
        if ailment.repair is not None:
            try:
                await ailment.repair()
                outcome = "repaired"
            except HoldfastError as error:
                outcome = f"not repaired: {type(error).__name__}: {error}"
        outcomes.append(f"{ailment.subject} {ailment.description}: {outcome}")
    return "; ".join(outcomes)


def act(report: Callable[[str], None], scene: Scene, step: Step, environment: Mapping[str, str]) -> None:
    """One step in a child, which says when it begins and what came of it."""
    os.environ.update(environment, **{OWNER: str(os.getpid())})
    report("begun")
    try:
        report(f"done {asyncio.run(take(scene, step))}")
    except HoldfastError as error:
        report(f"refused {type(error).__name__}: {error}")
    except Exception as error:
        report(f"defect {error!r} {traceback.format_exc()}")
        raise

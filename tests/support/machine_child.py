"""What a machine of a cluster does in tests, in a process that is killed at a failpoint."""

import asyncio
import os
from collections.abc import Callable, Mapping
from hashlib import sha256

from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.repository import open_repository
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE, arm_failpoints
from tests.support.machines import Machine
from tests.support.projects import Project, write


def run_id_in(folder: str) -> str:
    """Return an id that no other test has: a machine kills what is left of a run by the id."""
    return f"moving-{sha256(folder.encode()).hexdigest()[:6]}"


def act_and_die(
    report: Callable[[str], None], environment: Mapping[str, str], folder: str, name: str, action: str, failpoint: str
) -> None:
    """Do one thing on a machine, and die at a failpoint. Reports that it was done."""
    passes = os.path.join(folder, f"passes-{failpoint}")
    with open(passes, "wb"):
        pass
    os.environ.update({**environment, FAILPOINT_VARIABLE: failpoint, FAILPOINT_FILE_VARIABLE: passes})
    arm_failpoints()
    asyncio.run(act(folder, name, action))
    report("done")


async def act(folder: str, name: str, action: str) -> None:
    machine, project, run_id = Machine(folder, name), Project(folder), run_id_in(folder)
    match action:
        case "create":
            new = NewRun("Test moving", project.path, slug="moving", remote=project.remote)
            await create_run(machine, new, run_id=run_id)
        case "work":
            await _work(machine, project, run_id)
        case "read":
            info = (await view_run(machine, run_id)).state.run
            repository = await open_repository(machine, info, run_id)
            assert await repository.commit_of(f"refs/heads/holdfast/{run_id}/T-1") is not None
        case "drop":
            async with open_workspace(machine, run_id, "archive") as workspace:
                await workspace.effects.drop_cluster_refs()


async def _work(machine: Machine, project: Project, run_id: str) -> None:
    """Take the run over, and commit a task unless it is committed."""
    async with open_workspace(machine, run_id, "resume") as workspace:
        await workspace.open_worktree(base=project.git("rev-parse", "main").strip())
        write((await workspace.open_worktree("T-1")).path, {"new.txt": "new\n"})
        await workspace.commit("T-1", "Do T-1")

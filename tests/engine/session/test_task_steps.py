"""Each step of a task, performed by itself: what it does to the repository, and what the log says afterwards."""

import os
import shutil

from holdfast.core.decide.actions import Action, ActionKind, PromptKind
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.task import TaskFailed
from holdfast.core.events.work import MergeConflicted
from holdfast.core.messages.schema import UserMessage
from holdfast.core.state import BranchStatus
from holdfast.core.task_state import TaskStage, TaskStatus
from holdfast.core.work.names import worktree_names
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from tests.support.projects import write
from tests.support.sessions import RunHome, SessionParts, open_parts


async def take(parts: SessionParts, *kinds: ActionKind, task_id: str = "T-1") -> None:
    for kind in kinds:
        await parts.steps.run(Action(kind, task_id, PromptKind.BEGIN if kind is ActionKind.WORK else None))


async def test_work_prompts_the_worker_and_keeps_its_turn(runs: RunHome) -> None:
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        await take(parts, ActionKind.START, ActionKind.WORK)
        assert parts.task.status is TaskStatus.IN_PROGRESS
        (snapshot,) = await parts.workspace.repository.refs(f"{parts.workspace.place('T-1').snapshot_refs}/turn-1-*")
        assert runs.project.show(f"{snapshot}:hello.txt") == "hello"
    prompts = [event for event in await runs.events(run_id, MessageRecorded) if event.speaker != "agent"]
    assert len(prompts) == 1
    assert "write hello.txt" in prompts[0].text


async def test_message_is_delivered_with_one_prompt(runs: RunHome) -> None:
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        await take(parts, ActionKind.START)
        await send(Home(runs.home), run_id, UserMessage("in French, please"))
        await parts.handler.receive()
        await take(parts, ActionKind.WORK)
        await parts.steps.run(Action(ActionKind.WORK, "T-1", PromptKind.MESSAGE))
    prompts = [event.text for event in await runs.events(run_id, MessageRecorded) if event.speaker != "agent"]
    assert [text for text in prompts if "in French, please" in text] == prompts[:1]
    assert len(prompts) == 1


async def test_task_is_committed_merged_and_its_worktree_deleted(runs: RunHome) -> None:
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        await take(parts, ActionKind.START, ActionKind.WORK, ActionKind.ACCEPT_WITHOUT_CASE, ActionKind.VALIDATE)
        await take(parts, ActionKind.COMMIT, ActionKind.MERGE, ActionKind.COMPLETE)
        assert parts.task.status is TaskStatus.COMPLETE
        assert not os.path.exists(parts.workspace.worktree("T-1").path)
        assert parts.state.branches[parts.workspace.place("T-1").branch].status is not BranchStatus.IN_PROGRESS
    assert runs.project.branches() == [worktree_names(run_id).branch]
    assert runs.show(run_id, "hello.txt") == "hello"


async def test_merge_conflict_is_left_in_the_worktree_and_recorded(runs: RunHome) -> None:
    run_id = await runs.new_run("T-1", "T-2")
    async with open_parts(runs, run_id) as parts:
        for task_id in ("T-1", "T-2"):
            await take(parts, ActionKind.START, ActionKind.WORK, task_id=task_id)
            write(parts.workspace.worktree(task_id).path, {"a.txt": f"{task_id}\n"})
            await take(parts, ActionKind.ACCEPT_WITHOUT_CASE, ActionKind.VALIDATE, task_id=task_id)
            await take(parts, ActionKind.COMMIT, task_id=task_id)
        await take(parts, ActionKind.MERGE, task_id="T-1")
        await take(parts, ActionKind.MERGE, task_id="T-2")
        assert "a.txt" in runs.project.git("status", "--porcelain", at=parts.workspace.worktree("T-2").path)
        assert parts.state.tasks["T-2"].stage is TaskStage.WORK
    assert [event.files for event in await runs.events(run_id, MergeConflicted)] == [["a.txt"]]
    assert runs.show(run_id, "a.txt") == "T-1"


async def test_failed_task_keeps_its_work_on_its_branch(runs: RunHome) -> None:
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        await take(parts, ActionKind.START, ActionKind.WORK)
        await parts.steps.run(Action(ActionKind.FAIL, "T-1", reason="iter_cap"))
        assert parts.task.status is TaskStatus.FAILED
        assert await parts.workspace.has_placeholder("T-1")
        branch = parts.workspace.place("T-1").branch
    assert [event.error for event in await runs.events(run_id, TaskFailed)] == ["iter_cap"]
    assert runs.project.show(f"{branch}:hello.txt") == "hello"


async def test_deleted_worktree_is_restored_before_the_next_step(runs: RunHome) -> None:
    """From the snapshot of the last turn."""
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        await take(parts, ActionKind.START, ActionKind.WORK, ActionKind.ACCEPT_WITHOUT_CASE)
        folder = parts.workspace.worktree("T-1").path
        shutil.rmtree(folder)
        await take(parts, ActionKind.VALIDATE)
        assert os.path.exists(os.path.join(folder, "hello.txt"))

"""An interview: an agent asks, proposes tasks and tests, and the accepted plan becomes a prepared run."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.end_reason import EndReason
from holdfast.core.events.conversation import MessageRecorded, TurnStarted
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.plan import PlanAccepted, PlanCreated, PlanProposed, ProposedTask, RunInterviewed, RunPrepared
from holdfast.core.events.session import SeedsCommitted
from holdfast.core.events.work import ReportRefused
from holdfast.core.run_status import RunStatus
from holdfast.engine.commands.chat import accept, edit_plan, ensure_runner, send_chat_message
from holdfast.engine.commands.create import RunRequest
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.commands.interview import start_interview
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE
from tests.support.chats import Chat, Chats
from tests.support.pipelines import calls
from tests.support.variants import every

TEST = "tests/test_login.py"
PLAN: dict[str, Any] = {
    "overview": "Users can log in.",
    "tasks": [
        {"id": "T-1", "title": "Add the table", "acceptance_criteria": ["a user can be stored"]},
        {"id": "T-2", "title": "Add the form", "acceptance_criteria": ["it logs in"], "depends_on": ["T-1"]},
    ],
    "seeds": [TEST],
}
ASK = {"when": "You are the interviewer", "steps": [{"say": "With a password?"}]}
WRITE = {
    "when": "with a password",
    "steps": [
        {"usage": {"used": 700, "size": 1000}},
        {"write": {"path": TEST, "text": "assert False\n"}},
        {"write": {"path": "scratch.txt", "text": "not a seed\n"}},
        calls("submit_tasks", **PLAN),
        {"say": "There it is."},
    ],
}


class Interviews:
    def __init__(self, chats: Chats) -> None:
        self.chats = chats

    async def start(self, *turns: dict[str, Any], **book: Any) -> Chat:
        path = Path(self.chats.folder, "book.json")
        path.write_text(json.dumps({"turns": turns, "otherwise": [{"say": "fine"}], **book}))
        flags = {"agent": f"playbook:{path}", "chat.idle": 0}
        request = RunRequest("Users log in", self.chats.project.path, "login", flags=flags)
        run_id = await start_interview(self.chats.home, request)
        chat = Chat(self.chats.home, run_id)
        self.chats.started.append(chat)
        await ensure_runner(chat.home, run_id)
        await chat.rest()
        return chat


@pytest.fixture
def interviews(chats: Chats) -> Interviews:
    return Interviews(chats)


async def proposed(interviews: Interviews, **book: Any) -> Chat:
    chat = await interviews.start(ASK, WRITE, **book)
    await send_chat_message(chat.home, chat.run_id, "yes, with a password")
    await chat.rest()
    return chat


async def prepared_runs(chat: Chat) -> list[Chat]:
    return [Chat(chat.home, run_id) for run_id in chat.home.run_ids() if run_id != chat.run_id]


async def must_be_prepared(chat: Chat) -> Chat:
    """One run, with the plan, one seed commit, and what the interview cost."""
    (run,) = await prepared_runs(chat)
    (created,) = await run.events(PlanCreated)
    assert [task.summary for task in created.tasks] == ["Add the table", "Add the form"]
    assert [len(task.acceptance_criteria) for task in created.tasks] == [1, 1]
    (seeds,) = await run.events(SeedsCommitted)
    assert seeds.seeds == 1
    view = await view_run(run.home, run.run_id)
    assert view.status == EndReason.PLANNED
    (interviewed,) = await run.events(RunInterviewed)
    assert (interviewed.run_id, interviewed.turns, interviewed.model) == (chat.run_id, 2, "large")
    assert interviewed.input_tokens >= 700
    (prepared,) = await chat.events(RunPrepared)
    assert prepared == RunPrepared(run_id=run.run_id)
    assert (await chat.status())[0].state == "completed"
    return run


MODELS = {"models": {"current": "large", "available": ["large"]}}


async def test_accepted_plan_becomes_a_prepared_run_with_one_seed_commit(interviews: Interviews) -> None:
    chat = await proposed(interviews, agent=MODELS)
    (plan,) = await chat.events(PlanProposed)
    assert (plan.revision, plan.seeds, len(plan.tasks)) == (1, [TEST], 2)
    await accept(chat.home, chat.run_id)
    await chat.rest()
    run = await must_be_prepared(chat)
    assert run.run_id.startswith("login-")
    git = interviews.chats.project.git
    branch = f"holdfast/{run.run_id}/main"
    assert git("show", f"{branch}:{TEST}") == "assert False"
    assert git("log", "--format=%s", f"main..{branch}") == "Seed files"
    assert git("diff", "--name-only", f"main...{branch}") == TEST


async def test_plan_is_changed_by_its_user_and_the_interviewer_is_told(interviews: Interviews) -> None:
    chat = await proposed(interviews)
    one = [ProposedTask(id="A", title="Only the form", acceptance_criteria=["it logs in"])]
    with pytest.raises(BadInput, match="acceptance_criteria is empty"):
        await edit_plan(chat.home, chat.run_id, "Less.", [ProposedTask(id="A", title="a")], [])
    await edit_plan(chat.home, chat.run_id, "Less.", one, [])
    await send_chat_message(chat.home, chat.run_id, "what do you think?")
    await chat.rest()
    prompts = [event.text for event in await chat.events(MessageRecorded) if event.speaker == "user"]
    assert "The user changed the plan" in prompts[-1]
    await send_chat_message(chat.home, chat.run_id, "and now?")
    await accept(chat.home, chat.run_id)
    await chat.rest()
    prompts = [event.text for event in await chat.events(MessageRecorded) if event.speaker == "user"]
    assert prompts[-1] == "and now?"
    (run,) = await prepared_runs(chat)
    (created,) = await run.events(PlanCreated)
    assert [task.summary for task in created.tasks] == ["Only the form"]
    assert await run.events(SeedsCommitted) == []


async def test_plan_that_is_missing_or_names_missing_files_is_not_accepted(interviews: Interviews) -> None:
    """The chat goes on: the next message tells the interviewer what to do."""
    wrong = {**PLAN, "seeds": ["tests/nothing.py"]}
    chat = await interviews.start({"when": "go on", "steps": [calls("submit_tasks", **wrong)]}, ASK)
    await accept(chat.home, chat.run_id)
    await chat.rest()
    await send_chat_message(chat.home, chat.run_id, "go on")
    await accept(chat.home, chat.run_id)
    await chat.rest()
    warnings = [event.message for event in await chat.events(WarningLogged)]
    assert "there is no plan to accept" in warnings[0]
    assert "tests/nothing.py: no such file" in warnings[1]
    assert await prepared_runs(chat) == []
    assert (await chat.status())[0].state == "waiting_for_input"


async def test_incomplete_plan_is_refused_with_advice(interviews: Interviews) -> None:
    lacking = {**PLAN, "tasks": [{"id": "T-1", "title": "a", "acceptance_criteria": []}]}
    steps = calls("submit_tasks", **lacking)
    chat = await interviews.start({"when": "go on", "steps": [steps, {"say": "{{result}}"}]}, ASK)
    await send_chat_message(chat.home, chat.run_id, "go on")
    await chat.rest()
    assert await chat.events(PlanProposed) == []
    (refused,) = await chat.events(ReportRefused)
    assert "acceptance_criteria is empty" in refused.error


KILLS = (
    *(f"run.prepare.{side}:1" for side in ("before", "after")),
    *(f"effect.{kind}.before:1" for kind in ("seeds.commit", "worktree.make", "snapshot.take")),
    *(f"effect.{kind}.after:1" for kind in ("seeds.commit", "worktree.make", "snapshot.take")),
    *(f"journal.append.before:{number}" for number in (4, 6, 8, 9, 10, 12)),
)


@pytest.mark.parametrize("failpoint", every(3, KILLS, offset=1))
async def test_killed_while_a_run_is_prepared(
    interviews: Interviews, monkeypatch: pytest.MonkeyPatch, failpoint: str
) -> None:
    """The next session finishes it: one run, one seed commit, whatever was there already."""
    chat = await proposed(interviews, agent=MODELS)
    passes = Path(interviews.chats.folder, "passes")
    passes.touch()
    monkeypatch.setenv(FAILPOINT_VARIABLE, f"{failpoint}:self")
    monkeypatch.setenv(FAILPOINT_FILE_VARIABLE, os.fspath(passes))
    await accept(chat.home, chat.run_id)
    await chat.rest()
    monkeypatch.delenv(FAILPOINT_VARIABLE)
    assert failpoint.partition(":")[0] in passes.read_text()
    await ensure_runner(chat.home, chat.run_id)
    await chat.rest()
    assert len(await chat.events(PlanAccepted)) == 1
    await must_be_prepared(chat)


async def _is_in_a_turn(run: Chat) -> bool:
    return bool(await run.events(TurnStarted))


async def test_prepared_run_that_was_started_meanwhile_is_left_as_it_is(
    interviews: Interviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interview died before it recorded that the run is there; the run's own runner died in a turn."""
    book = {"when": "You are the worker", "steps": [{"hang": {"how": "turn", "seconds": 3600}}]}
    chat = await interviews.start(ASK, WRITE, book)
    await send_chat_message(chat.home, chat.run_id, "yes, with a password")
    await chat.rest()
    passes = Path(interviews.chats.folder, "passes")
    passes.touch()
    monkeypatch.setenv(FAILPOINT_VARIABLE, "run.prepare.after:1:self")
    monkeypatch.setenv(FAILPOINT_FILE_VARIABLE, os.fspath(passes))
    await accept(chat.home, chat.run_id)
    await chat.rest()
    monkeypatch.delenv(FAILPOINT_VARIABLE)
    (run,) = await prepared_runs(chat)
    pid = await start_detached(run.home, run.run_id)
    await run.until(_is_in_a_turn)
    os.kill(pid, signal.SIGKILL)
    await run.rest()
    assert (await view_run(run.home, run.run_id)).status == RunStatus.INTERRUPTED
    await ensure_runner(chat.home, chat.run_id)
    await chat.rest()
    assert len(await chat.events(RunPrepared)) == 1
    assert (await view_run(run.home, run.run_id)).status == RunStatus.INTERRUPTED

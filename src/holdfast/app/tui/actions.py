"""What the dashboard's keys do: the same as the commands of these names, after a question.

Each action returns a line about its result once that is on the disk, or None if nothing was done. Its errors are
`HoldfastError`s with messages of one line.
"""

from collections.abc import Awaitable, Callable

from holdfast.app.text.resume_report import instruction_context
from holdfast.app.text.rewind import plan_lines
from holdfast.app.tui.questions import (
    UNDO,
    YES,
    DialogQuestion,
    confirmation,
    point_choice,
    request_choice,
    request_lines,
    resume_choice_question,
)
from holdfast.core.decide.resume import Choice, ResumeCase, ResumeChoice, ResumeDecision
from holdfast.core.messages.answers import APPROVAL_PREFIX
from holdfast.core.messages.schema import UserAnswer, UserMessage
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, needs_to_answer
from holdfast.core.work.names import short_point_name
from holdfast.engine.commands.answer import raise_if_answered, send_answer
from holdfast.engine.commands.detach import resume_options, start_detached
from holdfast.engine.commands.fork import fork_run
from holdfast.engine.commands.rewind import RewindRequest, prepare_rewind, rewind_run
from holdfast.engine.commands.send import send
from holdfast.engine.commands.stop import stop_run
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.points import list_points
from holdfast.engine.queries.setup.run_settings import on_issue_setting
from holdfast.leaf.errors import BadInput, NothingToDo, RunOwned

_DENY_PROMPTS = {
    True: "Type what to change before you approve. Enter alone refuses it.",
    False: "Type the reason, which is sent to the agent with its next prompt. Enter denies.",
}
_POINT_COLUMNS = 64  # of a point in a dialog
Ask = Callable[[DialogQuestion], Awaitable[str | None]]


class DashboardActions:
    def __init__(self, home: Home, ask: Ask, show_status: Callable[[str], None]) -> None:
        self._home = home
        self._ask = ask
        self._show_status = show_status  # for slow actions

    async def approve(self, run_id: str) -> str | None:
        need, state = await self._choose_request(run_id)
        if need is None or not await self._is_confirmed(
            confirmation(f"{run_id} asks", *request_lines(need, state), yes="approve")
        ):
            return None
        return await self._answer(run_id, need, allow=True)

    async def deny(self, run_id: str) -> str | None:
        need, state = await self._choose_request(run_id)
        if need is None:
            return None
        is_phase = (need.key or "").startswith(APPROVAL_PREFIX)
        answer = await self._ask(
            DialogQuestion(f"{run_id} asks", (*request_lines(need, state), "", _DENY_PROMPTS[is_phase]))
        )
        if answer is None:
            return None
        text = answer.strip() or None
        return await self._answer(
            run_id, need, allow=False, changes=text if is_phase else None, reason=None if is_phase else text
        )

    async def resume(self, run_id: str) -> str | None:
        decision = await self._pending_decision(run_id)
        if decision is None:
            return await self._start_runner(run_id)
        key = await self._ask(resume_choice_question(run_id, decision))
        chosen = next((option.choice for option in decision.options if option.key == key), None)
        if chosen is None:
            return None
        if chosen is not Choice.CUSTOM:
            return await self._start_runner(run_id, *resume_options(ResumeChoice(chosen)))
        state = (await view_run(self._home, run_id)).state
        instructions = await self._ask(DialogQuestion("Your instructions", [*instruction_context(state)]))
        if not (instructions or "").strip():
            raise BadInput("no instructions given; nothing changed")
        return await self._start_runner(run_id, *resume_options(ResumeChoice(chosen, instructions)))

    async def stop(self, run_id: str) -> str | None:
        if not self._home.is_owned(run_id):
            raise NothingToDo(f"{run_id} is not running")
        question = confirmation(f"Stop {run_id}?", "The run stops cleanly; r resumes it.", yes="stop")
        if not await self._is_confirmed(question):
            return None
        self._show_status(f"stopping {run_id} …")
        await stop_run(self._home, run_id)
        return f"stopped {run_id}; r resumes it"

    async def send(self, run_id: str) -> str | None:
        text = await self._ask(DialogQuestion(f"Message to the agent of {run_id}, delivered with its next prompt"))
        if text is None:
            return None
        if not text.strip():
            raise BadInput("the message is empty; nothing was sent")
        await send(self._home, run_id, UserMessage(text))
        return f"message queued: {text}{self._resume_hint(run_id)}"

    async def rewind(self, run_id: str) -> str | None:
        chosen = await self._choose_point(run_id, undo=True)
        if chosen is None:
            return None
        request = RewindRequest(undo=True) if chosen == UNDO else RewindRequest(chosen)
        prepared = await prepare_rewind(self._home, run_id, request)
        title, *body = plan_lines(prepared.plan)
        if not await self._is_confirmed(confirmation(title, *body, yes="rewind")):
            return None
        self._show_status(f"rewinding {run_id} …")
        done = await rewind_run(self._home, run_id, request, prepared)
        return f"{run_id} is at {short_point_name(done.point)}; b and u take it back, r resumes it"

    async def fork(self, run_id: str) -> str | None:
        chosen = await self._choose_point(run_id, undo=False)
        if chosen is None:
            return None
        self._show_status(f"forking {run_id} …")
        return f"forked as {(await fork_run(self._home, run_id, chosen)).run_id}; r resumes it"

    async def _choose_point(self, run_id: str, *, undo: bool) -> str | None:
        """Return the position of a point as `--to` takes it, or `UNDO`; None if none was chosen."""
        points = await list_points(self._home, run_id)
        can_undo = undo and bool((await view_run(self._home, run_id)).state.rewinds)
        if not points and not can_undo:
            raise NothingToDo(f"{run_id} has no points")
        key = await self._ask(point_choice(run_id, points, _POINT_COLUMNS, undo=can_undo))
        return key if key in (None, UNDO) else f"@{points[int(key) - 1].position}"

    async def _is_confirmed(self, question: DialogQuestion) -> bool:
        return await self._ask(question) == YES

    async def _choose_request(self, run_id: str) -> tuple[Need | None, RunState]:
        """Return the open request; if there are several, ask which one. None if none was chosen."""
        state = (await view_run(self._home, run_id)).state
        open_requests = needs_to_answer(state)
        if not open_requests:
            raise NothingToDo(f"{run_id} has no open request")
        if len(open_requests) == 1:
            return open_requests[0], state
        key = await self._ask(request_choice(run_id, open_requests))
        return (open_requests[int(key) - 1] if key is not None else None), state

    async def _answer(
        self, run_id: str, need: Need, *, allow: bool, changes: str | None = None, reason: str | None = None
    ) -> str:
        state = (await view_run(self._home, run_id)).state
        if need.key is None or need.key not in [other.key for other in needs_to_answer(state)]:
            raise_if_answered(run_id, state, need.key)
            raise NothingToDo(f"{run_id} has withdrawn this request")
        await send_answer(self._home, run_id, state, need, UserAnswer(need.key, allow, changes=changes, reason=reason))
        verb = "approved" if allow else "change requested" if changes else "denied"
        return f"{verb}: {need.text}{self._resume_hint(run_id)}"

    async def _pending_decision(self, run_id: str) -> ResumeDecision | None:
        """Return the decision that a person has to make before the run can continue; None if there is none."""
        view = await view_run(self._home, run_id)
        if view.status == RunStatus.RUNNING:
            raise RunOwned(f"{run_id} is already running; Enter attaches")
        decision = view.analysis.decision
        decided = (
            decision.case in (ResumeCase.AUTO, ResumeCase.WAITING, ResumeCase.COMPLETE)
            or on_issue_setting(self._home, view.state) != "ask"
        )
        return None if decided else decision

    async def _start_runner(self, run_id: str, *options: str) -> str:
        self._show_status(f"resuming {run_id} …")
        pid = await start_detached(self._home, run_id, *options)
        return f"resumed {run_id} (pid {pid})"

    def _resume_hint(self, run_id: str) -> str:
        return "" if self._home.is_owned(run_id) else "; r resumes the run and applies it"

"""What the keys of the dashboard do: the same as the commands of these names, each after a question.

Each tells in words how it went, when that is on the disk; None when nothing was done. What it raises is a
`HoldfastError`, whose message is one line.
"""

from collections.abc import Awaitable, Callable

from holdfast.app.text.resume_report import context
from holdfast.app.tui.questions import YES, Question, how, sure, told, which
from holdfast.core.decide.resume import Case, Choice, Decision, ResumeChoice
from holdfast.core.messages.answers import APPROVAL
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, open_questions
from holdfast.engine.commands.answer import give_answer, must_not_be_answered
from holdfast.engine.commands.detach import as_options, start_detached
from holdfast.engine.commands.stop import stopped
from holdfast.engine.config.of_run import on_issue_of
from holdfast.engine.inbox.answers import Answer
from holdfast.engine.inbox.send import Words, send
from holdfast.engine.places import is_owned
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import BadInput, NothingToDo, Owned

_WHY = {
    True: "What is to be changed before you approve? Nothing, and Enter: it is refused.",
    False: "Enter denies it. What you write before that is the reason, which its agent is told with the next prompt.",
}
Ask = Callable[[Question], Awaitable[str | None]]


class Hands:
    def __init__(self, home: str, ask: Ask, tell: Callable[[str], None]) -> None:
        self._home = home
        self._ask = ask
        self._tell = tell  # of what takes a while

    async def approve(self, run_id: str) -> str | None:
        need, state = await self._question(run_id)
        if need is None or not await self._agreed(sure(f"{run_id} asks", *told(need, state), yes="approve")):
            return None
        return await self._answered(run_id, need, allow=True)

    async def deny(self, run_id: str) -> str | None:
        need, state = await self._question(run_id)
        if need is None:
            return None
        is_phase = (need.key or "").startswith(APPROVAL)
        words = await self._ask(Question(f"{run_id} asks", (*told(need, state), "", _WHY[is_phase])))
        if words is None:
            return None
        text = words.strip() or None
        return await self._answered(
            run_id, need, allow=False, changes=text if is_phase else None, reason=None if is_phase else text
        )

    async def resume(self, run_id: str) -> str | None:
        decision = await self._undecided(run_id)
        if decision is None:
            return await self._resumed(run_id)
        key = await self._ask(how(run_id, decision))
        chosen = next((option.choice for option in decision.options if option.key == key), None)
        if chosen is None:
            return None
        if chosen is not Choice.CUSTOM:
            return await self._resumed(run_id, *as_options(ResumeChoice(chosen)))
        state = (await view_run(self._home, run_id)).state
        words = await self._ask(Question("Your instructions", [*context(state)]))
        if not (words or "").strip():
            raise BadInput("no instructions were given; nothing was changed")
        return await self._resumed(run_id, *as_options(ResumeChoice(chosen, words)))

    async def stop(self, run_id: str) -> str | None:
        if not is_owned(self._home, run_id):
            raise NothingToDo(f"{run_id} is not at work")
        question = sure(f"Stop {run_id}?", "It ends its sitting cleanly; r goes on from where it stood.", yes="stop it")
        if not await self._agreed(question):
            return None
        self._tell(f"{run_id} was asked to stop …")
        await stopped(self._home, run_id)
        return f"{run_id} has stopped; r resumes it"

    async def send(self, run_id: str) -> str | None:
        text = await self._ask(Question(f"For the agent of {run_id}, with its next prompt"))
        if text is None:
            return None
        if not text.strip():
            raise BadInput("there is nothing to say; nothing was sent")
        await send(self._home, run_id, Words(text))
        return f"taken: {text}{self._later(run_id)}"

    async def _agreed(self, question: Question) -> bool:
        return await self._ask(question) == YES

    async def _question(self, run_id: str) -> tuple[Need | None, RunState]:
        """The one that waits for an answer; where several do, the one that is meant, or None."""
        state = (await view_run(self._home, run_id)).state
        open_ones = open_questions(state)
        if not open_ones:
            raise NothingToDo(f"nothing of {run_id} waits for an answer")
        if len(open_ones) == 1:
            return open_ones[0], state
        key = await self._ask(which(run_id, open_ones))
        return (open_ones[int(key) - 1] if key is not None else None), state

    async def _answered(
        self, run_id: str, need: Need, *, allow: bool, changes: str | None = None, reason: str | None = None
    ) -> str:
        state = (await view_run(self._home, run_id)).state
        if need.key is None or need.key not in [one.key for one in open_questions(state)]:
            must_not_be_answered(run_id, state, need.key)
            raise NothingToDo(f"{run_id} no longer asks that")
        await give_answer(self._home, run_id, state, need, Answer(need.key, allow, changes=changes, reason=reason))
        how_so = "approved" if allow else "to be changed" if changes else "denied"
        return f"{how_so}: {need.text}{self._later(run_id)}"

    async def _undecided(self, run_id: str) -> Decision | None:
        """What a person has to decide before it goes on; None when it can."""
        view = await view_run(self._home, run_id)
        if view.status == "running":
            raise Owned(f"{run_id} is at work already; Enter attaches")
        decision = view.analysis.decision
        decided = (
            decision.case in (Case.AUTO, Case.WAITING, Case.COMPLETE) or on_issue_of(self._home, view.state) != "ask"
        )
        return None if decided else decision

    async def _resumed(self, run_id: str, *options: str) -> str:
        self._tell(f"{run_id} is being resumed …")
        pid = await start_detached(self._home, run_id, *options)
        return f"{run_id} is at work (pid {pid})"

    def _later(self, run_id: str) -> str:
        return "" if is_owned(self._home, run_id) else "; r resumes the run, which takes it in"

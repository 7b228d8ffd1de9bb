"""Which turn a prompt gets, and the playing of its steps."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from msgspec import UNSET

from holdfast.agents.playbook import actions as deeds
from holdfast.agents.playbook import faults
from holdfast.agents.playbook import messages as talk
from holdfast.agents.playbook.format import (
    Crash,
    Delete,
    End,
    Failure,
    Flood,
    Hang,
    Junk,
    Memory,
    Noise,
    Permission,
    PermissionOption,
    Playbook,
    Read,
    Repeat,
    Run,
    Spoken,
    Step,
    ToolChange,
    ToolStart,
    Turn,
    WaitFor,
)
from holdfast.agents.playbook.jsonrpc import Refusal
from holdfast.agents.playbook.mcp_servers import NoServer
from holdfast.agents.playbook.sessions import Folder, Record, Said, Unfinished
from holdfast.agents.playbook.turn import CannotPlay, Stage, TurnFailed, TurnOver, text_content

RESUME_CONTEXT = "RESUME CONTEXT"
_NOTHING_LEFT = "The playbook has no turn for this prompt."
_OTHERWISE = Turn(steps=[Step(say=_NOTHING_LEFT), Step(end="refusal")])
_OPTIONS = [
    PermissionOption(id="allow", kind="allow_once", name="Allow"),
    PermissionOption(id="reject", kind="reject_once", name="Reject"),
]

_Do = Callable[[Stage, Any], Awaitable[None]]


class Part(NamedTuple):
    """A turn of the playbook, the place where it stands in it, and the step to begin with."""

    turn: Turn
    place: int | None
    first: int = 0


class Player:
    """`answer(stage, end)` answers the prompt before the turn is over."""

    def __init__(
        self, playbook: Playbook, name: str, folder: Folder, answer: Callable[[Stage, End], Awaitable[None]]
    ) -> None:
        self._playbook = playbook
        self._name = name
        self._folder = folder
        self._answer = answer
        self._turns = [turn if isinstance(turn, Turn) else Turn(steps=turn) for turn in playbook.turns]
        self._steps = self._table()

    # --- the turn ---

    def begin(self, record: Record, prompt: str) -> Part:
        """Choose the turn, and take the prompt into the memory; no other task has come between."""
        part = self._choose(record, prompt)
        record.turns += 1
        record.said.append(Said(record.turns, prompt))
        record.show({"sessionUpdate": "user_message_chunk", "content": text_content(prompt)})
        record.unfinished = Unfinished(record.turns, part.place, part.first)
        self.keep(record)
        return part

    async def play(self, stage: Stage, part: Part) -> End:
        place = "otherwise" if part.place is None else f"turns[{part.place}]"
        own = stage.record.unfinished  # once it was answered, that of the next turn may stand there
        try:
            for number, step in enumerate(part.turn.steps[part.first :], part.first):
                if own:
                    own.begun = number + 1
                self.keep(stage.record)
                await self._do(stage, step, f"{place}[{number}]")
        except TurnOver as over:
            return over.end
        return End()

    async def play_cancelled(self, stage: Stage, part: Part) -> End:
        """The turn was cancelled: what the script has for that, then the end."""
        if isinstance(part.turn.on_cancel, list):
            try:
                await self._play_all(stage, part.turn.on_cancel, f"turns[{part.place}].on_cancel")
            except TurnOver as over:
                return over.end
        return End(reason="cancelled")

    def finish(self, record: Record, part: Part) -> None:
        """The turn is over: the next one has its turn."""
        record.unfinished = None
        if part.place is not None and part.turn.once:
            record.played.append(part.place)
        if part.place is not None and not part.turn.is_chosen:
            record.next += 1
        self.keep(record, turn_over=True)

    def keep(self, record: Record, *, turn_over: bool = False) -> None:
        save = self._playbook.sessions.save
        if save == "step" or (save == "turn" and turn_over):
            self._folder.save(record)

    def _choose(self, record: Record, prompt: str) -> Part:
        left = record.unfinished
        in_order = [index for index, turn in enumerate(self._turns) if not turn.is_chosen]
        if left and left.plays in in_order and self._playbook.sessions.interrupted == "next":
            record.next += 1
        for index, turn in enumerate(self._turns):
            if turn.is_chosen and index not in record.played and _is_asked_for(turn, prompt):
                break
        else:
            if record.next >= len(in_order):
                steps = self._playbook.otherwise
                return Part(_OTHERWISE if steps is None else Turn(steps=steps), None)
            index = in_order[record.next]
        goes_on = left is not None and left.plays == index and self._playbook.sessions.interrupted == "continue"
        return Part(self._turns[index], index, left.begun if left and goes_on else 0)

    # --- its steps ---

    async def play_start(self, stage: Stage) -> None:
        await self._play_all(stage, self._playbook.start, "start")

    async def _play_all(self, stage: Stage, steps: list[Step], place: str) -> None:
        for number, step in enumerate(steps):
            await self._do(stage, step, f"{place}[{number}]")

    async def _do(self, stage: Stage, step: Step, place: str) -> None:
        name = step.key
        here = f"{place}.{name}"
        try:
            match value := getattr(step, name):
                case Permission():
                    await self._permission(stage, value, here)
                case Repeat():
                    await self._repeat(stage, value, here)
                case Crash() | Hang():
                    await self._harm(stage, value, here)
                case str() if name in ("crash", "hang"):
                    await self._harm(stage, (Crash if name == "crash" else Hang)(how=value), here)  # type: ignore[arg-type]
                case _:
                    await self._steps[name](stage, value)
        except (CannotPlay, NoServer, OSError, Refusal) as error:
            sys.stderr.write(f"playbook: {here}: {error}\n")
            raise TurnFailed(Failure(message=f"{here}: {error}")) from error

    def _table(self) -> dict[str, _Do]:
        return {
            "say": lambda stage, step: talk.speak(stage, "agent_message_chunk", _as(Spoken, "text", step)),
            "think": lambda stage, step: talk.speak(stage, "agent_thought_chunk", _as(Spoken, "text", step)),
            "plan": talk.show_plan,
            "tool": lambda stage, step: stage.start_tool(_as(ToolStart, "title", step)),
            "tool_update": lambda stage, step: stage.change_tool(step),
            "tool_done": partial(_end_tool, "completed"),
            "tool_failed": partial(_end_tool, "failed"),
            "usage": talk.show_usage,
            "commands": talk.show_commands,
            "mode": _mode,
            "config": self._config,
            "title": _title,
            "echo_memory": lambda stage, step: talk.echo_memory(stage, step if isinstance(step, Memory) else Memory()),
            "write": deeds.write,
            "append": deeds.append,
            "replace": deeds.replace,
            "delete": lambda stage, step: deeds.delete(stage, _as(Delete, "path", step)),
            "read": lambda stage, step: deeds.read(stage, _as(Read, "path", step)),
            "run": lambda stage, step: deeds.run(stage, _as(Run, "command", step)),
            "mcp": deeds.call_tool,
            "mcp_tools": deeds.list_tools,
            "sleep": lambda _, step: asyncio.sleep(step),
            "wait_for": lambda stage, step: deeds.wait_for(stage, _as(WaitFor, "path", step)),
            "junk": _junk,
            "flood": lambda stage, step: talk.flood(stage, _as(Flood, "updates", step)),
            "stderr": _stderr,
            "send": lambda stage, step: stage.wire.send(stage.fill_all(step)),
            "answer": lambda stage, step: self._answer(stage, _as(End, "reason", step)),
            "end": _end,
            "error": _error,
        }

    async def _permission(self, stage: Stage, step: Permission, here: str) -> None:
        options = [_option(option) for option in step.options] or _OPTIONS
        known = step.id is not None
        call = stage.fill(step.id) if step.id is not None else stage.new_tool_call()
        fields = {name: value for name, value in stage.tool_fields(step).items() if value is not None}
        asked = {"toolCallId": call, **({} if known else {"status": "pending"}), **fields}
        shown = [{"optionId": one.id, "name": one.name or one.id, "kind": one.kind} for one in options]
        answer = asyncio.create_task(stage.ask("session/request_permission", toolCall=asked, options=shown))
        cancel = asyncio.create_task(stage.cancelled.wait())
        stage.asking = step.cancelled is not None
        try:
            await asyncio.wait({answer, cancel}, return_when=asyncio.FIRST_COMPLETED)
            outcome = answer.result()["outcome"] if answer.done() else {"outcome": "cancelled"}
        finally:
            stage.asking = False
            answer.cancel()
            cancel.cancel()
        stage.result = str(outcome.get("optionId", "cancelled"))
        chosen = next((one for one in options if one.id == outcome.get("optionId")), None)
        if chosen is not None:
            allowed = chosen.kind.startswith("allow")
            steps, branch = (step.allowed, "allowed") if allowed else (step.rejected, "rejected")
            await self._play_all(stage, steps, f"{here}.{branch}")
        elif step.cancelled is None:
            raise TurnOver(End(reason="cancelled"))
        else:
            await self._play_all(stage, step.cancelled, f"{here}.cancelled")
            if stage.cancelled.is_set():
                raise TurnOver(End(reason="cancelled"))

    async def _repeat(self, stage: Stage, step: Repeat, here: str) -> None:
        for number in range(step.times):
            stage.round = number + 1
            await self._play_all(stage, step.steps, f"{here}[{number}]")
            self.keep(stage.record)

    def first_time(self, once: bool | str, here: str) -> bool:  # noqa: FBT001 - as it is written
        return self._folder.first_time(once if isinstance(once, str) else f"{self._name} {here}")

    async def _harm(self, stage: Stage, step: Crash | Hang, here: str) -> None:
        if step.once and not self.first_time(step.once, here):
            return
        if isinstance(step, Crash):
            faults.crash(step)
        stage.deaf = step.how == "deaf"
        await faults.hang(step)

    async def _config(self, stage: Stage, step: dict[str, str | bool]) -> None:
        stage.record.config |= step
        agent = self._playbook.agent
        await stage.update(
            "config_option_update", configOptions=talk.config_options(agent.config, agent.models, stage.record.config)
        )


def _is_asked_for(turn: Turn, prompt: str) -> bool:
    if turn.resume_context is not None and turn.resume_context != (RESUME_CONTEXT in prompt):
        return False
    return turn.when is None or re.search(turn.when, prompt) is not None


def _as(kind: type[Any], field: str, step: Any) -> Any:
    """The whole form of a step that was written in short."""
    return step if isinstance(step, kind) else kind(**{field: step})


def _option(option: PermissionOption | str) -> PermissionOption:
    if isinstance(option, PermissionOption):
        return option
    return PermissionOption(id=option, kind=option, name=option.replace("_", " ").capitalize())  # type: ignore[arg-type]


async def _end_tool(status: str, stage: Stage, step: ToolChange) -> None:
    await stage.change_tool(step, status)


async def _mode(stage: Stage, mode: str) -> None:
    stage.record.mode = mode
    await stage.update("current_mode_update", currentModeId=mode)


async def _title(stage: Stage, title: str) -> None:
    stage.record.title = stage.fill(title)
    await stage.update("session_info_update", title=stage.record.title)


async def _junk(stage: Stage, step: Junk | str) -> None:
    junk: Junk = _as(Junk, "what", step)
    await faults.talk_nonsense(stage.wire, junk, stage.fill(junk.text))


async def _stderr(stage: Stage, step: Noise | str) -> None:
    noise: Noise = _as(Noise, "text", step)
    line = f"{stage.fill(noise.text)}\n"
    for _ in range(noise.times):
        sys.stderr.write(line)
    sys.stderr.flush()


async def _end(_: Stage, step: End | str) -> None:
    raise TurnOver(_as(End, "reason", step))


async def _error(stage: Stage, step: Failure) -> None:
    data = UNSET if step.data is UNSET else stage.fill_all(step.data)
    raise TurnFailed(Failure(code=step.code, message=stage.fill(step.message), data=data))

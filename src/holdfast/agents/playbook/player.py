"""Chooses the turn for a prompt and plays its steps."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from msgspec import UNSET

from holdfast.agents.jsonrpc.connection import JsonRpcError
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
    PermissionOption,
    Playbook,
    PlaybookPermission,
    PlaybookTurn,
    Read,
    Repeat,
    Run,
    Spoken,
    Step,
    ToolChange,
    ToolStart,
    WaitFor,
)
from holdfast.agents.playbook.mcp_servers import NoMcpServer
from holdfast.agents.playbook.sessions import PlaybookSession, RecordedMessage, StateFolder, UnfinishedTurn
from holdfast.agents.playbook.turn import RunningTurn, StepImpossible, TurnFailed, TurnOver, text_content

RESUME_CONTEXT = "RESUME CONTEXT"
_NO_TURN_TEXT = "The playbook has no turn for this prompt."
_DEFAULT_TURN = PlaybookTurn(steps=[Step(say=_NO_TURN_TEXT), Step(end="refusal")])
_DEFAULT_OPTIONS = [
    PermissionOption(id="allow", kind="allow_once", name="Allow"),
    PermissionOption(id="reject", kind="reject_once", name="Reject"),
]

_StepAction = Callable[[RunningTurn, Any], Awaitable[None]]


class ChosenTurn(NamedTuple):
    """A turn of the playbook, its position, and the step to start with."""

    turn: PlaybookTurn
    turn_index: int | None
    first_step: int = 0


class Player:
    """`answer(stage, end)` answers the prompt before the turn is over."""

    def __init__(
        self,
        playbook: Playbook,
        playbook_path: str,
        folder: StateFolder,
        answer: Callable[[RunningTurn, End], Awaitable[None]],
    ) -> None:
        self._playbook = playbook
        self._playbook_path = playbook_path
        self._folder = folder
        self._answer = answer
        self._turns = [turn if isinstance(turn, PlaybookTurn) else PlaybookTurn(steps=turn) for turn in playbook.turns]
        self._actions = self._action_table()

    # --- the turn ---

    def begin(self, record: PlaybookSession, prompt: str) -> ChosenTurn:
        """Choose the turn and store the prompt, without giving way to another task."""
        chosen_turn = self._choose(record, prompt)
        record.turns += 1
        record.said.append(RecordedMessage(record.turns, prompt))
        record.add_update({"sessionUpdate": "user_message_chunk", "content": text_content(prompt)})
        record.unfinished = UnfinishedTurn(record.turns, chosen_turn.turn_index, chosen_turn.first_step)
        self.save(record)
        return chosen_turn

    async def play(self, turn: RunningTurn, chosen_turn: ChosenTurn) -> End:
        place = "otherwise" if chosen_turn.turn_index is None else f"turns[{chosen_turn.turn_index}]"
        own = turn.record.unfinished  # after the answer, this may be the next turn's record
        try:
            for number, step in enumerate(chosen_turn.turn.steps[chosen_turn.first_step :], chosen_turn.first_step):
                if own:
                    own.begun = number + 1
                self.save(turn.record)
                await self._play_step(turn, step, f"{place}[{number}]")
        except TurnOver as over:
            return over.end
        return End()

    async def play_cancelled(self, turn: RunningTurn, chosen_turn: ChosenTurn) -> End:
        """The turn was cancelled: play what the script has for that, then end it."""
        if isinstance(chosen_turn.turn.on_cancel, list):
            try:
                await self._play_all(turn, chosen_turn.turn.on_cancel, f"turns[{chosen_turn.turn_index}].on_cancel")
            except TurnOver as over:
                return over.end
        return End(reason="cancelled")

    def finish(self, record: PlaybookSession, chosen_turn: ChosenTurn) -> None:
        """End the turn, so that the next one can be chosen."""
        record.unfinished = None
        if chosen_turn.turn_index is not None and chosen_turn.turn.once:
            record.played.append(chosen_turn.turn_index)
        if chosen_turn.turn_index is not None and not chosen_turn.turn.is_chosen:
            record.next += 1
        self.save(record, is_turn_over=True)

    def save(self, record: PlaybookSession, *, is_turn_over: bool = False) -> None:
        save = self._playbook.sessions.save
        if save == "step" or (save == "turn" and is_turn_over):
            self._folder.save(record)

    def _choose(self, record: PlaybookSession, prompt: str) -> ChosenTurn:
        left = record.unfinished
        in_order = [index for index, turn in enumerate(self._turns) if not turn.is_chosen]
        if left and left.plays in in_order and self._playbook.sessions.interrupted == "next":
            record.next += 1
        for index, turn in enumerate(self._turns):
            if turn.is_chosen and index not in record.played and _matches_prompt(turn, prompt):
                break
        else:
            if record.next >= len(in_order):
                steps = self._playbook.otherwise
                return ChosenTurn(_DEFAULT_TURN if steps is None else PlaybookTurn(steps=steps), None)
            index = in_order[record.next]
        goes_on = left is not None and left.plays == index and self._playbook.sessions.interrupted == "continue"
        return ChosenTurn(self._turns[index], index, left.begun if left and goes_on else 0)

    # --- its steps ---

    async def play_start(self, turn: RunningTurn) -> None:
        await self._play_all(turn, self._playbook.start, "start")

    async def _play_all(self, turn: RunningTurn, steps: list[Step], place: str) -> None:
        for number, step in enumerate(steps):
            await self._play_step(turn, step, f"{place}[{number}]")

    async def _play_step(self, turn: RunningTurn, step: Step, place: str) -> None:
        name = step.key
        here = f"{place}.{name}"
        try:
            match value := getattr(step, name):
                case PlaybookPermission():
                    await self._permission(turn, value, here)
                case Repeat():
                    await self._repeat(turn, value, here)
                case Crash() | Hang():
                    await self._play_fault(turn, value, here)
                case str() if name in ("crash", "hang"):
                    await self._play_fault(turn, (Crash if name == "crash" else Hang)(how=value), here)  # type: ignore[arg-type]
                case _:
                    await self._actions[name](turn, value)
        except (StepImpossible, NoMcpServer, OSError, JsonRpcError) as error:
            sys.stderr.write(f"playbook: {here}: {error}\n")
            raise TurnFailed(Failure(message=f"{here}: {error}")) from error

    def _action_table(self) -> dict[str, _StepAction]:
        return {
            "say": lambda stage, step: talk.speak(stage, "agent_message_chunk", _full_form(Spoken, "text", step)),
            "think": lambda stage, step: talk.speak(stage, "agent_thought_chunk", _full_form(Spoken, "text", step)),
            "plan": talk.show_plan,
            "tool": lambda stage, step: stage.start_tool(_full_form(ToolStart, "title", step)),
            "tool_update": lambda stage, step: stage.change_tool(step),
            "tool_done": partial(_end_tool, "completed"),
            "tool_failed": partial(_end_tool, "failed"),
            "usage": talk.show_usage,
            "commands": talk.show_commands,
            "mode": _set_mode,
            "config": self._set_config,
            "title": _set_title,
            "echo_memory": lambda stage, step: talk.echo_memory(stage, step if isinstance(step, Memory) else Memory()),
            "write": deeds.write,
            "append": deeds.append,
            "replace": deeds.replace,
            "delete": lambda stage, step: deeds.delete(stage, _full_form(Delete, "path", step)),
            "read": lambda stage, step: deeds.read(stage, _full_form(Read, "path", step)),
            "run": lambda stage, step: deeds.run(stage, _full_form(Run, "command", step)),
            "mcp": deeds.call_tool,
            "mcp_tools": deeds.list_tools,
            "sleep": lambda _, step: asyncio.sleep(step),
            "wait_for": lambda stage, step: deeds.wait_for(stage, _full_form(WaitFor, "path", step)),
            "junk": _send_junk,
            "flood": lambda stage, step: talk.flood(stage, _full_form(Flood, "updates", step)),
            "stderr": _write_stderr,
            "send": lambda stage, step: stage.connection.send(stage.fill_all(step)),
            "answer": lambda stage, step: self._answer(stage, _full_form(End, "reason", step)),
            "end": _end_turn,
            "error": _fail_turn,
        }

    async def _permission(self, turn: RunningTurn, step: PlaybookPermission, place: str) -> None:
        options = [_permission_option(option) for option in step.options] or _DEFAULT_OPTIONS
        known = step.id is not None
        call = turn.fill(step.id) if step.id is not None else turn.new_tool_call()
        fields = {name: value for name, value in turn.tool_fields(step).items() if value is not None}
        tool_call = {"toolCallId": call, **({} if known else {"status": "pending"}), **fields}
        shown = [
            {"optionId": offered.id, "name": offered.name or offered.id, "kind": offered.kind} for offered in options
        ]
        answer = asyncio.create_task(turn.request("session/request_permission", toolCall=tool_call, options=shown))
        cancel = asyncio.create_task(turn.cancelled.wait())
        turn.is_asking = step.cancelled is not None
        try:
            await asyncio.wait({answer, cancel}, return_when=asyncio.FIRST_COMPLETED)
            outcome = answer.result()["outcome"] if answer.done() else {"outcome": "cancelled"}
        finally:
            turn.is_asking = False
            answer.cancel()
            cancel.cancel()
        turn.result = str(outcome.get("optionId", "cancelled"))
        chosen = next((offered for offered in options if offered.id == outcome.get("optionId")), None)
        if chosen is not None:
            allowed = chosen.kind.startswith("allow")
            steps, branch = (step.allowed, "allowed") if allowed else (step.rejected, "rejected")
            try:
                await self._play_all(turn, steps, f"{place}.{branch}")
            except TurnOver:
                await self._end_asked(turn, step, call, allowed=allowed)
                raise
            await self._end_asked(turn, step, call, allowed=allowed)
        elif step.cancelled is None:
            raise TurnOver(End(reason="cancelled"))
        else:
            await self._play_all(turn, step.cancelled, f"{place}.cancelled")
            if turn.cancelled.is_set():
                raise TurnOver(End(reason="cancelled"))

    @staticmethod
    async def _end_asked(turn: RunningTurn, step: PlaybookPermission, call: str, *, allowed: bool) -> None:
        """End the call that was allowed. A rejected one never began; one with an id belongs to steps that end it."""
        if allowed and step.id is None and call not in turn.ended_calls:
            await turn.end_asked(call)

    async def _repeat(self, turn: RunningTurn, step: Repeat, place: str) -> None:
        for number in range(step.times):
            turn.round = number + 1
            await self._play_all(turn, step.steps, f"{place}[{number}]")
            self.save(turn.record)

    def is_first_time(self, once: bool | str, place: str) -> bool:  # noqa: FBT001 - as the format has it
        return self._folder.is_first_time(once if isinstance(once, str) else f"{self._playbook_path} {place}")

    async def _play_fault(self, turn: RunningTurn, step: Crash | Hang, place: str) -> None:
        if step.once and not self.is_first_time(step.once, place):
            return
        if isinstance(step, Crash):
            faults.crash(step)
        turn.ignores_cancel = step.how == "deaf"
        await faults.hang(step)

    async def _set_config(self, turn: RunningTurn, step: dict[str, str | bool]) -> None:
        turn.record.config |= step
        agent = self._playbook.agent
        await turn.update("config_option_update", configOptions=talk.config_options(agent, turn.record.config))


def _matches_prompt(turn: PlaybookTurn, prompt: str) -> bool:
    if turn.resume_context is not None and turn.resume_context != (RESUME_CONTEXT in prompt):
        return False
    return turn.when is None or re.search(turn.when, prompt) is not None


def _full_form(kind: type[Any], field: str, step: Any) -> Any:
    """Expand the short form of a step."""
    return step if isinstance(step, kind) else kind(**{field: step})


def _permission_option(option: PermissionOption | str) -> PermissionOption:
    if isinstance(option, PermissionOption):
        return option
    return PermissionOption(id=option, kind=option, name=option.replace("_", " ").capitalize())  # type: ignore[arg-type]


async def _end_tool(status: str, turn: RunningTurn, step: ToolChange) -> None:
    await turn.change_tool(step, status)


async def _set_mode(turn: RunningTurn, mode: str) -> None:
    turn.record.mode = mode
    await turn.update("current_mode_update", currentModeId=mode)


async def _set_title(turn: RunningTurn, title: str) -> None:
    turn.record.title = turn.fill(title)
    await turn.update("session_info_update", title=turn.record.title)


async def _send_junk(turn: RunningTurn, step: Junk | str) -> None:
    junk: Junk = _full_form(Junk, "what", step)
    await faults.send_junk(turn.connection, junk, turn.fill(junk.text))


async def _write_stderr(turn: RunningTurn, step: Noise | str) -> None:
    noise: Noise = _full_form(Noise, "text", step)
    line = f"{turn.fill(noise.text)}\n"
    for _ in range(noise.times):
        sys.stderr.write(line)
    sys.stderr.flush()


async def _end_turn(_: RunningTurn, step: End | str) -> None:
    raise TurnOver(_full_form(End, "reason", step))


async def _fail_turn(turn: RunningTurn, step: Failure) -> None:
    data = UNSET if step.data is UNSET else turn.fill_all(step.data)
    raise TurnFailed(Failure(code=step.code, message=turn.fill(step.message), data=data))

"""Who decides for an agent: rules, hooks, and a person; every question and every answer is in the log.

A question outlives the agent that asked it. Answered while the agent is dead, the answer waits for it to ask again.
"""

import asyncio
import hashlib
import os
import secrets
import shlex
from collections.abc import Callable, Sequence

import msgspec

from holdfast.agents.acp.client import Asked
from holdfast.core.conversation.own_tools import own_tool
from holdfast.core.conversation.permission import Consent, Verdict, Wish, judge
from holdfast.core.conversation.tool_call import ToolCall
from holdfast.core.events import Event
from holdfast.core.events.conversation import PermissionAnswered, PermissionRequested, ToolBlocked
from holdfast.core.events.work import HookRan
from holdfast.core.messages.answers import ALLOWING, REFUSING, option_for
from holdfast.core.text.cut import cut
from holdfast.engine.hooks.process import MOST_REASON, Called, called, hook_input
from holdfast.leaf.errors import BadInput
from holdfast.store.run import OwnedRun

PRE_TOOL = "pre_tool"


class Desk:
    """Where questions of all agents of a run come in, and answers go out."""

    def __init__(
        self, run: OwnedRun, consent: Consent, untrusted: Callable[[str], str | None] = lambda _: None
    ) -> None:
        """`untrusted` is a folder from which no hook is started for a conversation."""
        self._run = run
        self._consent = consent
        self._untrusted = untrusted
        self._open: dict[str, asyncio.Future[str | None]] = {}

    def for_agent(self, conversation: str, cwd: str) -> "Counsel":
        return Counsel(self, conversation, cwd)

    def option_for(self, request: str, wanted: str | None, *, allow: bool) -> str | None:
        """The option that was chosen; where it is not offered (any more), the first that allows, or that refuses."""
        asked = self._run.state.permissions.get(request)
        if asked is None:
            return None
        offered = [one["id"] for one in msgspec.json.decode(asked.options)]
        return wanted if wanted in offered else option_for(asked, allow=allow)

    async def answer(self, request: str, option: str | None, by: str) -> None:
        await self.apply(PermissionAnswered(request=request, option=option, by=by))

    async def apply(self, answered: PermissionAnswered, *also: Event) -> None:
        """An answer. Durable before the agent is told; kept for later when the agent is not there.

        `also` goes into the same commit.
        """
        request, option = answered.request, answered.option
        asked = self._run.state.permissions.get(request)
        if asked is None:
            raise BadInput(f"there is no open request {request!r}; it was answered already, or never made")
        ids = [one["id"] for one in msgspec.json.decode(asked.options)]
        if option is not None and option not in ids:
            raise BadInput(f"{option!r} is not one of the answers; they are {', '.join(ids)}")
        await self._run.append(answered, *also)
        waiting = self._open.pop(request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(option)

    async def withdraw(self, conversation: str, why: str) -> None:
        """Nobody is to answer any more what was asked in a turn that is being cancelled, or in turns before its end."""
        for request, asked in list(self._run.state.permissions.items()):
            if asked.conversation == conversation and request in self._run.state.permissions:
                await self.answer(request, None, why)

    async def ask(self, conversation: str, cwd: str, asked: Asked) -> str | None:
        call = asked.call
        mark = _fingerprint(conversation, call)
        request = self._left_open(mark) or secrets.token_hex(6)
        requested = PermissionRequested(
            conversation=conversation,
            request=request,
            title=call.title,
            kind=call.kind,
            call=call.id,
            paths=list(call.paths),
            options=msgspec.Raw(msgspec.json.encode([dict(zip(_OPTION, one, strict=True)) for one in asked.options])),
            fingerprint=mark,
            command=call.command,
            diffs=list(call.diffs),
            input=_raw(call.input),
            note=call.note if call.input is None else None,
        )
        chosen, by = self._by_rule(cwd, asked)
        earlier = self._run.state.conversations[conversation].granted.get(mark)
        if by is None and earlier in [one[0] for one in asked.options]:
            chosen, by = earlier, "the answer given before"
        if by is not None:
            await self._run.append(requested, PermissionAnswered(request=request, option=chosen, by=by))
            return chosen
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._open[request] = waiting  # before anybody can see the question, and answer it
        try:
            await self._run.append(requested)
            return await waiting
        finally:
            self._open.pop(request, None)

    async def veto(self, conversation: str, cwd: str, call: ToolCall) -> str | None:
        """Why a tool call may not be made; None when it may."""
        ruling = judge(_wish(cwd, call), self._consent.policy, self._consent.rules)
        denied = ruling.verdict is Verdict.DENY
        why = f"by {ruling.because}" if denied else await self._asked_hooks(conversation, cwd, call)
        if why is not None:
            blocked = ToolBlocked(
                conversation=conversation, tool=call.title, reason=why, command=call.command, input=_raw(call.input)
            )
            await self._run.append(blocked)
        return why

    def _left_open(self, mark: str) -> str | None:
        """The same question, of an agent that is gone: it is one question still, and one answer is enough."""
        left = self._run.state.permissions.items()
        return next((one for one, asked in left if asked.fingerprint == mark and one not in self._open), None)

    def _by_rule(self, cwd: str, asked: Asked) -> tuple[str | None, str | None]:
        """What the rules choose, and which; nothing when a person has to."""
        ruling = judge(_wish(cwd, asked.call), self._consent.policy, self._consent.rules)
        if ruling.verdict is Verdict.ASK:
            return None, None
        chosen = _first(asked, ALLOWING if ruling.verdict is Verdict.ALLOW else REFUSING)
        if chosen is None and ruling.verdict is Verdict.ALLOW:
            return None, None  # it does not offer what the rule would choose
        return chosen, ruling.because

    async def _asked_hooks(self, conversation: str, cwd: str, call: ToolCall) -> str | None:
        """Why one of them blocks the call. What each said is in the log before the agent hears of it."""
        if not self._consent.hooks:
            return None
        run_id = self._run.state.run.run_id if self._run.state.run is not None else None
        task = self._run.state.conversations[conversation].task
        about = {"tool": call.title, "kind": call.kind, "paths": call.paths, "command": call.command}
        told = hook_input(PRE_TOOL, run_id, task, conversation, **about, input=call.input, diffs=call.diffs, cwd=cwd)
        untrusted, patience = self._untrusted(conversation), self._consent.patience
        for command in self._consent.hooks:
            answer = await called(command, cwd, told, run_id=run_id, patience=patience, untrusted=untrusted)
            why = _refusal(command[0], answer)
            ran = HookRan(
                hook=PRE_TOOL,
                command=shlex.join(command),
                exit_code=answer.code,
                problem=answer.problem,
                outcome="allow" if why is None else "block",
                reason=cut(why, MOST_REASON) if why is not None else None,
                tool=call.title,
                task=task,
                conversation=conversation,
            )
            await self._run.append(ran)
            if why is not None:
                return why
        return None


def _refusal(program: str, answer: Called) -> str | None:
    """One that cannot be asked is against it."""
    if answer.problem is not None:
        return f"the hook {program} {answer.problem}"
    return (answer.said or f"the hook {program} refused") if answer.code != 0 else None


_OPTION = ("id", "name", "kind")


class Counsel:
    """The desk, for one agent."""

    def __init__(self, desk: Desk, conversation: str, cwd: str) -> None:
        self._desk = desk
        self._conversation = conversation
        self._cwd = cwd

    async def permit(self, asked: Asked) -> str | None:
        if own_tool(asked.call) is not None:  # nobody is asked, and no rule or hook can take it away
            return _first(asked, ALLOWING)
        asked = asked._replace(call=_without_repeated_paths(self._cwd, asked.call))
        why = await self.veto(asked.call)
        if why is not None:
            return _first(asked, REFUSING)
        return await self._desk.ask(self._conversation, self._cwd, asked)

    async def veto(self, call: ToolCall) -> str | None:
        if wrong := next((path for path in call.paths if "\0" in path), None):
            return f"{wrong!r} is not a path"
        return await self._desk.veto(self._conversation, self._cwd, call)


def _first(asked: Asked, kinds: Sequence[str]) -> str | None:
    """The first option of the first of these kinds that is offered."""
    return next((one[0] for kind in kinds for one in asked.options if one[2] == kind), None)


def _wish(cwd: str, call: ToolCall) -> Wish:
    return Wish(call.kind, call.title, _relative(cwd, call.paths), call.command)


def _without_repeated_paths(cwd: str, call: ToolCall) -> ToolCall:
    """The same file may be named by its whole path and by one within the worktree."""
    if any("\0" in path for path in call.paths):
        return call
    named = dict(zip(reversed(_relative(cwd, call.paths)), reversed(call.paths), strict=True))
    return msgspec.structs.replace(call, paths=tuple(reversed(named.values())))


def _relative(cwd: str, paths: Sequence[str]) -> tuple[str, ...]:
    home = os.path.realpath(cwd)
    return tuple(os.path.relpath(os.path.realpath(os.path.join(home, path)), home) for path in paths)


def _fingerprint(conversation: str, call: ToolCall) -> str:
    """The same for the same question, asked again by an agent that came back."""
    about = [conversation, call.title, call.kind, call.paths, call.input, call.diffs, call.note]
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()[:16]


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))

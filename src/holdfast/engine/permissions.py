"""Who decides for an agent: rules, hooks, and a person; every question and every answer is in the log.

A question outlives the agent that asked it. Answered while the agent is dead, the answer waits for it to ask again.
"""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Sequence

import msgspec

from holdfast.agents.client import Asked
from holdfast.core.events import Event
from holdfast.core.events.conversation import PermissionAnswered, PermissionRequested, ToolBlocked
from holdfast.core.permission import Consent, Verdict, Wish, judge
from holdfast.engine.hook_calls import called
from holdfast.leaf.errors import BadInput
from holdfast.store.run import OwnedRun

_ALLOWING = ("allow_once", "allow_always")
_REFUSING = ("reject_once", "reject_always")


class Desk:
    """Where questions of all agents of a run come in, and answers go out."""

    def __init__(self, run: OwnedRun, consent: Consent) -> None:
        self._run = run
        self._consent = consent
        self._open: dict[str, asyncio.Future[str | None]] = {}

    def for_agent(self, conversation: str, cwd: str) -> "Counsel":
        return Counsel(self, conversation, cwd)

    def option_for(self, request: str, *, allow: bool) -> str | None:
        """The first answer that allows, or that refuses; None when there is no such."""
        asked = self._run.state.permissions.get(request)
        offered = msgspec.json.decode(asked.options) if asked is not None else []
        kinds = _ALLOWING if allow else _REFUSING
        return next((one["id"] for kind in kinds for one in offered if one["kind"] == kind), None)

    async def answer(self, request: str, option: str | None, by: str, *also: Event) -> None:
        """A person's answer. Durable before the agent is told; kept for later when the agent is not there.

        `also` goes into the same commit.
        """
        asked = self._run.state.permissions.get(request)
        if asked is None:
            raise BadInput(f"there is no open request {request!r}; it was answered already, or never made")
        ids = [one["id"] for one in msgspec.json.decode(asked.options)]
        if option is not None and option not in ids:
            raise BadInput(f"{option!r} is not one of the answers; they are {', '.join(ids)}")
        await self._run.append(PermissionAnswered(request=request, option=option, by=by), *also)
        waiting = self._open.pop(request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(option)

    async def withdraw(self, conversation: str, why: str) -> None:
        """Nobody is to answer any more what was asked in a turn that is being cancelled, or in turns before its end."""
        for request, asked in list(self._run.state.permissions.items()):
            if asked.conversation == conversation and request in self._run.state.permissions:
                await self.answer(request, None, why)

    async def ask(self, conversation: str, cwd: str, asked: Asked) -> str | None:
        mark = _fingerprint(conversation, asked)
        request = self._left_open(mark) or secrets.token_hex(6)
        requested = PermissionRequested(
            conversation=conversation,
            request=request,
            title=asked.title,
            kind=asked.kind,
            call=asked.call,
            paths=list(asked.paths),
            options=msgspec.Raw(msgspec.json.encode([dict(zip(_OPTION, one, strict=True)) for one in asked.options])),
            fingerprint=mark,
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

    async def veto(self, conversation: str, cwd: str, wish: Wish) -> str | None:
        """Why a call of a tool that is ours may not be made; None when it may."""
        ruling = judge(wish._replace(paths=_relative(cwd, wish.paths)), self._consent.policy, self._consent.rules)
        why = f"by {ruling.because}" if ruling.verdict is Verdict.DENY else await self._hooked(cwd, wish)
        if why is not None:
            await self._run.append(ToolBlocked(conversation=conversation, tool=wish.title, reason=why))
        return why

    def _left_open(self, mark: str) -> str | None:
        """The same question, of an agent that is gone: it is one question still, and one answer is enough."""
        left = self._run.state.permissions.items()
        return next((one for one, asked in left if asked.fingerprint == mark and one not in self._open), None)

    def _by_rule(self, cwd: str, asked: Asked) -> tuple[str | None, str | None]:
        """What the rules choose, and which; nothing when a person has to."""
        wish = Wish(asked.kind, asked.title, _relative(cwd, asked.paths))
        ruling = judge(wish, self._consent.policy, self._consent.rules)
        if ruling.verdict is Verdict.ASK:
            return None, None
        kinds = _ALLOWING if ruling.verdict is Verdict.ALLOW else _REFUSING
        chosen = next((one[0] for kind in kinds for one in asked.options if one[2] == kind), None)
        if chosen is None and ruling.verdict is Verdict.ALLOW:
            return None, None  # it does not offer what the rule would choose
        return chosen, ruling.because

    async def _hooked(self, cwd: str, wish: Wish) -> str | None:
        told = msgspec.json.encode({"tool": wish.title, "kind": wish.kind, "paths": list(wish.paths), "cwd": cwd})
        run_id = self._run.state.run.run_id if self._run.state.run is not None else None
        for command in self._consent.hooks:
            answer = await called(command, cwd, told, run_id=run_id, patience=self._consent.patience)
            if answer.problem is not None:  # one that cannot be asked is against it
                return f"the hook {command[0]} {answer.problem}"
            if answer.code != 0:
                return answer.said or f"the hook {command[0]} refused"
        return None


_OPTION = ("id", "name", "kind")


class Counsel:
    """The desk, for one agent."""

    def __init__(self, desk: Desk, conversation: str, cwd: str) -> None:
        self._desk = desk
        self._conversation = conversation
        self._cwd = cwd

    async def permit(self, asked: Asked) -> str | None:
        why = await self.veto(asked.title, asked.kind, asked.paths)
        if why is not None:
            return next((one[0] for one in asked.options if one[2] in _REFUSING), None)
        return await self._desk.ask(self._conversation, self._cwd, asked)

    async def veto(self, tool: str, kind: str, paths: Sequence[str]) -> str | None:
        if wrong := next((path for path in paths if "\0" in path), None):
            return f"{wrong!r} is not a path"
        return await self._desk.veto(self._conversation, self._cwd, Wish(kind, tool, tuple(paths)))


def _relative(cwd: str, paths: Sequence[str]) -> tuple[str, ...]:
    home = os.path.realpath(cwd)
    return tuple(os.path.relpath(os.path.realpath(os.path.join(home, path)), home) for path in paths)


def _fingerprint(conversation: str, asked: Asked) -> str:
    """The same for the same question, asked again by an agent that came back."""
    about = msgspec.json.encode(
        [conversation, asked.title, asked.kind, asked.paths, asked.input], order="deterministic"
    )
    return hashlib.sha256(about).hexdigest()[:16]

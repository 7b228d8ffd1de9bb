"""Decides permission requests: by rules, by hooks, or by a person. Every request and answer is in the log.

A request outlives its agent. If it is answered while the agent is dead, the answer waits until the agent asks again.
"""

import asyncio
import hashlib
import os
import secrets
import shlex
from collections.abc import Callable, Sequence

import msgspec

from holdfast.agents.acp.client import PermissionQuestion
from holdfast.core.conversation.own_tools import own_tool
from holdfast.core.conversation.permission import (
    PermissionConfig,
    PermissionDecision,
    PermissionQuery,
    decide_permission,
)
from holdfast.core.conversation.tool_call import ToolCall
from holdfast.core.decide.permission_rules import find_rule
from holdfast.core.events import Event
from holdfast.core.events.chat import RuleAdded
from holdfast.core.events.conversation import PermissionAnswered, PermissionRequested, ToolBlocked
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.work import HookRan
from holdfast.core.messages.answers import ALLOW_OPTION_KINDS, REJECT_OPTION_KINDS, option_for, option_of_kind
from holdfast.core.state import PermissionRequest
from holdfast.core.text.cut import cut
from holdfast.engine.hooks.process import MAX_REASON_CHARS, HookResult, hook_input, run_hook
from holdfast.leaf.errors import BadInput
from holdfast.store.run import OwnedRun

PRE_TOOL = "pre_tool"


class PermissionBroker:
    """Receives the permission requests of all agents of a run, and returns the answers."""

    def __init__(
        self, run: OwnedRun, consent: PermissionConfig, untrusted: Callable[[str], str | None] = lambda _: None
    ) -> None:
        """`untrusted` returns the folder from which no hook is started for a conversation."""
        self._run = run
        self._consent = consent
        self._untrusted = untrusted
        self._pending: dict[str, asyncio.Future[str | None]] = {}
        self._folders: dict[str, str] = {}  # the working folder of each agent

    def for_agent(self, conversation_id: str, cwd: str) -> "AgentPermissions":
        self._folders[conversation_id] = cwd
        return AgentPermissions(self, conversation_id, cwd)

    def option_for(self, request: str, preferred: str | None, *, allow: bool) -> str | None:
        """Return the chosen option; if it is not offered (any more), the first that allows or rejects."""
        permission = self._run.state.permissions.get(request)
        if permission is None:
            return None
        offered = [option["id"] for option in msgspec.json.decode(permission.options)]
        return preferred if preferred in offered else option_for(permission, allow=allow)

    def once_option(self, request: str) -> str | None:
        """Return the option that allows a single call: an agent is never given a permanent permission."""
        permission = self._run.state.permissions.get(request)
        return option_of_kind(permission, "allow_once") if permission is not None else None

    def rule_events(self, request: str, by: str | None) -> list[Event]:
        """Return the rule for later requests: the same kind of tool with exactly this command or these paths."""
        permission = self._run.state.permissions.get(request)
        if permission is None:
            return []
        if permission.command is None and not permission.paths:
            return [
                WarningLogged(message="allowed this once: the request names no command and no path to always allow")
            ]
        rule = RuleAdded(
            rule=secrets.token_hex(4),
            kind=permission.kind,
            command=permission.command,
            paths=list(self._relative_paths(permission)),
            request=request,
            by=by or "user",
        )
        return [rule]

    def _relative_paths(self, permission: PermissionRequest) -> tuple[str, ...]:
        cwd = self._folders.get(permission.conversation)
        return _relative(cwd, permission.paths) if cwd is not None else tuple(permission.paths)

    async def answer(self, request: str, option: str | None, by: str) -> None:
        await self.apply_answer(PermissionAnswered(request=request, option=option, by=by))

    async def apply_answer(self, answer: PermissionAnswered, *events: Event) -> None:
        """Apply an answer. Durable before the agent gets it; kept for later if the agent is not running.

        `events` are part of the same commit.
        """
        request, option = answer.request, answer.option
        permission = self._run.state.permissions.get(request)
        if permission is None:
            raise BadInput(f"there is no open request {request!r}; it was answered already or never existed")
        ids = [offered["id"] for offered in msgspec.json.decode(permission.options)]
        if option is not None and option not in ids:
            raise BadInput(f"{option!r} is not one of the answers; they are {', '.join(ids)}")
        await self._run.append(answer, *events)
        waiting = self._pending.pop(request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(option)

    async def withdraw(self, conversation_id: str, reason: str) -> None:
        """Withdraw open requests of a turn that is being cancelled, or of turns that have ended."""
        for request, permission in list(self._run.state.permissions.items()):
            if permission.conversation == conversation_id and request in self._run.state.permissions:
                await self.answer(request, None, reason)

    async def ask(self, conversation_id: str, cwd: str, permission_request: PermissionQuestion) -> str | None:
        call = permission_request.call
        fingerprint = _fingerprint(conversation_id, call)
        request = self._unanswered_request(fingerprint) or secrets.token_hex(6)
        requested = PermissionRequested(
            conversation=conversation_id,
            request=request,
            title=call.title,
            kind=call.kind,
            call=call.id,
            paths=list(call.paths),
            options=msgspec.Raw(
                msgspec.json.encode(
                    [dict(zip(_OPTION_FIELDS, option, strict=True)) for option in permission_request.options]
                )
            ),
            fingerprint=fingerprint,
            command=call.command,
            diffs=list(call.diffs),
            input=_raw(call.input),
            note=call.note if call.input is None else None,
        )
        chosen, by = self._decide_by_rule(cwd, permission_request)
        earlier = self._run.state.conversations[conversation_id].granted.get(fingerprint)
        if by is None and earlier in [option[0] for option in permission_request.options]:
            chosen, by = earlier, "the earlier answer"
        if by is not None:
            await self._run.append(requested, PermissionAnswered(request=request, option=chosen, by=by))
            return chosen
        waiting: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._pending[request] = waiting  # before the request is visible and can be answered
        try:
            await self._run.append(requested)
            return await waiting
        finally:
            self._pending.pop(request, None)

    async def veto(self, conversation_id: str, cwd: str, call: ToolCall) -> str | None:
        """Return why a tool call is blocked; None if it is allowed."""
        ruling = decide_permission(_requested_action(cwd, call), self._consent.policy, self._consent.rules)
        denied = ruling.decision is PermissionDecision.DENY
        why = f"by {ruling.reason}" if denied else await self._ask_hooks(conversation_id, cwd, call)
        if why is not None:
            blocked = ToolBlocked(
                conversation=conversation_id, tool=call.title, reason=why, command=call.command, input=_raw(call.input)
            )
            await self._run.append(blocked)
        return why

    def _unanswered_request(self, fingerprint: str) -> str | None:
        """Return the same request of an agent that died: it is still one request, and one answer is enough."""
        left = self._run.state.permissions.items()
        return next(
            (
                request
                for request, permission in left
                if permission.fingerprint == fingerprint and request not in self._pending
            ),
            None,
        )

    def _decide_by_rule(self, cwd: str, permission_request: PermissionQuestion) -> tuple[str | None, str | None]:
        """Return the option that the rules choose, and the rule; None if a person must decide."""
        ruling = decide_permission(
            _requested_action(cwd, permission_request.call), self._consent.policy, self._consent.rules
        )
        if ruling.decision is PermissionDecision.ASK:
            rule = find_rule(self._run.state.rules, _requested_action(cwd, permission_request.call))
            option = _first_option(permission_request, ALLOW_OPTION_KINDS) if rule is not None else None
            return (option, f"rule {rule} of this run") if option is not None else (None, None)
        chosen = _first_option(
            permission_request,
            ALLOW_OPTION_KINDS if ruling.decision is PermissionDecision.ALLOW else REJECT_OPTION_KINDS,
        )
        if chosen is None and ruling.decision is PermissionDecision.ALLOW:
            return None, None  # the agent does not offer the option that the rule chooses
        return chosen, ruling.reason

    async def _ask_hooks(self, conversation_id: str, cwd: str, call: ToolCall) -> str | None:
        """Return why a hook blocks the call. Each hook's result is in the log before the agent gets the answer."""
        if not self._consent.hooks:
            return None
        run_id = self._run.state.run.run_id if self._run.state.run is not None else None
        task = self._run.state.conversations[conversation_id].task
        about = {"tool": call.title, "kind": call.kind, "paths": call.paths, "command": call.command}
        stdin = hook_input(
            PRE_TOOL, run_id, task, conversation_id, **about, input=call.input, diffs=call.diffs, cwd=cwd
        )
        untrusted, patience = self._untrusted(conversation_id), self._consent.hook_timeout_s
        for command in self._consent.hooks:
            answer = await run_hook(command, cwd, stdin, run_id=run_id, timeout_s=patience, untrusted=untrusted)
            why = _hook_refusal(command[0], answer)
            ran = HookRan(
                hook=PRE_TOOL,
                command=shlex.join(command),
                exit_code=answer.exit_code,
                problem=answer.problem,
                outcome="allow" if why is None else "block",
                reason=cut(why, MAX_REASON_CHARS) if why is not None else None,
                tool=call.title,
                task=task,
                conversation=conversation_id,
            )
            await self._run.append(ran)
            if why is not None:
                return why
        return None


def _hook_refusal(program: str, result: HookResult) -> str | None:
    """A hook that cannot be run blocks the call."""
    if result.problem is not None:
        return f"the hook {program} {result.problem}"
    return (result.output or f"the hook {program} refused") if result.exit_code != 0 else None


_OPTION_FIELDS = ("id", "name", "kind")


class AgentPermissions:
    """The permission broker, for one agent."""

    def __init__(self, broker: PermissionBroker, conversation_id: str, cwd: str) -> None:
        self._broker = broker
        self._conversation_id = conversation_id
        self._cwd = cwd

    async def permit(self, request: PermissionQuestion) -> str | None:
        if own_tool(request.call) is not None:  # our own tool: always allowed, and no rule or hook can block it
            return _first_option(request, ALLOW_OPTION_KINDS)
        request = request._replace(call=_without_repeated_paths(self._cwd, request.call))
        why = await self.veto(request.call)
        if why is not None:
            return _first_option(request, REJECT_OPTION_KINDS)
        return await self._broker.ask(self._conversation_id, self._cwd, request)

    async def veto(self, call: ToolCall) -> str | None:
        if wrong := next((path for path in call.paths if "\0" in path), None):
            return f"{wrong!r} is not a path"
        return await self._broker.veto(self._conversation_id, self._cwd, call)


def _first_option(request: PermissionQuestion, kinds: Sequence[str]) -> str | None:
    """Return the first option of the first of these kinds that is offered."""
    return next((option[0] for kind in kinds for option in request.options if option[2] == kind), None)


def _requested_action(cwd: str, call: ToolCall) -> PermissionQuery:
    return PermissionQuery(call.kind, call.title, _relative(cwd, call.paths), call.command)


def _without_repeated_paths(cwd: str, call: ToolCall) -> ToolCall:
    """Remove duplicates: a file may be named by its absolute path and by one relative to the worktree."""
    if any("\0" in path for path in call.paths):
        return call
    named = dict(zip(reversed(_relative(cwd, call.paths)), reversed(call.paths), strict=True))
    return msgspec.structs.replace(call, paths=tuple(reversed(named.values())))


def _relative(cwd: str, paths: Sequence[str]) -> tuple[str, ...]:
    home = os.path.realpath(cwd)
    return tuple(os.path.relpath(os.path.realpath(os.path.join(home, path)), home) for path in paths)


def _fingerprint(conversation_id: str, call: ToolCall) -> str:
    """Return the same value for the same request when a restored agent repeats it."""
    about = [conversation_id, call.title, call.kind, call.paths, call.input, call.diffs, call.note]
    return hashlib.sha256(msgspec.json.encode(about, order="deterministic")).hexdigest()[:16]


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))

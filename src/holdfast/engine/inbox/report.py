"""Taking in what agents report: checked, then durable in the run's inbox, and only then acknowledged."""

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.core.messages.reports import REFUSED, SIGNAL, RefusedReport, as_raw
from holdfast.core.messages.signals import RequestResearch, Signal, SubmitDocument, read_signal, schema_of, tools_of
from holdfast.core.state import RunState
from holdfast.core.work.research import asked_before
from holdfast.core.work.workflow import PhaseSpec, Workflow
from holdfast.engine.inbox.send import deliver
from holdfast.engine.naming import find_run
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.sync import have_on_disk
from holdfast.store.base import Message
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from holdfast.workflows.artifacts import misfits


class Reporter(NamedTuple):
    """Who reports, and to which run. One that is confined cannot write to its inbox, and has a file of its own."""

    home: str
    run_id: str
    role: str
    conversation: str | None = None
    file: str | None = None


class Tool(NamedTuple):
    name: str
    about: str
    schema: dict[str, Any]


def reporter(home: str, run: str, role: str, conversation: str | None, file: str | None = None) -> Reporter:
    return Reporter(home, find_run(home, run), role, conversation, file)


def tools_for(role: str) -> list[Tool]:
    return [Tool(kind.tool, kind.about, schema_of(kind)) for kind in tools_of(role)]


async def report(who: Reporter, tool: str, arguments: Mapping[str, Any]) -> str:
    """Store one signal; returns what the agent is told.

    `BadInput` says what is wrong with it; then the run is told of that, and of nothing else.
    """
    state = await _state_of(who)
    try:
        signal = read_signal(who.role, tool, arguments)
        if isinstance(signal, SubmitDocument):
            _must_fit(signal, _phase_of(who, state))
    except BadInput as error:
        refused = RefusedReport(who.role, _utf8(tool), _utf8(str(error)), as_raw(arguments), who.conversation)
        await _deliver(who, _message(who, REFUSED, refused))
        raise
    await have_on_disk(*_where_it_works(who, state))  # what it tells of is there when it is
    body = {"role": who.role, "conversation": who.conversation, "signal": signal}
    await _deliver(who, _message(who, f"{SIGNAL}{tool}", body))
    return _acknowledged(state, who.conversation, signal)


async def _deliver(who: Reporter, message: Message) -> None:
    """To where it is collected from, and durable there."""
    store = FileStore(who.home)
    await deliver(store.inbox(who.run_id) if who.file is None else store.report_file(who.file), message)


def _message(who: Reporter, kind: str, body: object) -> Message:
    return Message(
        id=secrets.token_hex(12),
        kind=kind,
        sender=who.conversation or who.role,
        body=msgspec.Raw(msgspec.json.encode(body)),
    )


def _acknowledged(state: RunState, conversation: str | None, signal: Signal) -> str:
    known = asked_before(state, conversation or "", signal.question) if isinstance(signal, RequestResearch) else None
    if known is None:
        return "received"
    how = "was answered before" if state.research[known].answered else "is being looked into already"
    return f"received; the same question {how}, and its answer comes to you as a message"


def _utf8(text: str) -> str:
    """What an agent sent may hold halves of characters, which cannot be written."""
    return text.encode(errors="replace").decode()


def _where_it_works(who: Reporter, state: RunState) -> list[str]:
    """Its files are in the run's folder; what it commits is in the repository, which may be on another disk."""
    repository = state.run.repo if state.run is not None else None
    return [run_folder(who.home, who.run_id), *([repository] if repository is not None else [])]


def _must_fit(signal: SubmitDocument, spec: PhaseSpec | None) -> None:
    wrong = misfits(signal.text, spec) if spec is not None else []
    if wrong:
        told = "\n".join(f"- {one}" for one in wrong)
        raise BadInput(
            f"{signal.tool}: `text` is not what the phase asks for; it was not taken; call it again with that set "
            f"right:\n{told}"
        )


async def _state_of(who: Reporter) -> RunState:
    store = FileStore(who.home)
    return (await fold_log(store.log(who.run_id), await store.snapshot(who.run_id))).fold.state


def _phase_of(who: Reporter, state: RunState) -> PhaseSpec | None:
    """The phase that whoever reports works on, as the run's log has it."""
    talk = state.conversations.get(who.conversation or "")
    if talk is None or state.workflow is None:
        return None
    return msgspec.convert(state.workflow, Workflow).phase(talk.about)

"""Taking in what agents report: checked, then durable in the run's inbox, and only then acknowledged."""

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.core.reports import SIGNAL
from holdfast.core.signals import Signal, SubmitDocument, read_signal, schema_of, tools_of
from holdfast.core.state import RunState
from holdfast.core.workflow import PhaseSpec, Workflow
from holdfast.engine.mail import deliver
from holdfast.engine.naming import find_run
from holdfast.leaf.errors import BadInput
from holdfast.leaf.syncing import have_on_disk
from holdfast.store.base import Message
from holdfast.store.files import FileStore
from holdfast.store.folding import fold_log
from holdfast.store.layout import run_folder
from holdfast.workflows.artifacts import misfits


class Reporter(NamedTuple):
    """Who reports, and to which run."""

    home: str
    run_id: str
    role: str
    conversation: str | None = None


class Tool(NamedTuple):
    name: str
    about: str
    schema: dict[str, Any]


def reporter(home: str, run: str, role: str, conversation: str | None) -> Reporter:
    return Reporter(home, find_run(home, run), role, conversation)


def tools_for(role: str) -> list[Tool]:
    return [Tool(kind.tool, kind.about, schema_of(kind)) for kind in tools_of(role)]


async def report(who: Reporter, tool: str, arguments: Mapping[str, Any]) -> Signal:
    """Store one signal. `BadInput` says what is wrong with it, and then nothing was stored."""
    signal = read_signal(who.role, tool, arguments)
    state = await _state_of(who)
    if isinstance(signal, SubmitDocument):
        _must_fit(signal, _phase_of(who, state))
    body = {"role": who.role, "conversation": who.conversation, "signal": signal}
    message = Message(
        id=secrets.token_hex(12),
        kind=f"{SIGNAL}{tool}",
        sender=who.conversation or who.role,
        body=msgspec.Raw(msgspec.json.encode(body)),
    )
    await have_on_disk(*_where_it_works(who, state))  # what it tells of is there when it is
    await deliver(who.home, who.run_id, message)
    return signal


def _where_it_works(who: Reporter, state: RunState) -> list[str]:
    """Its files are in the run's folder; what it commits is in the repository, which may be on another disk."""
    repository = state.run.repo if state.run is not None else None
    return [run_folder(who.home, who.run_id), *([repository] if repository is not None else [])]


def _must_fit(signal: SubmitDocument, spec: PhaseSpec | None) -> None:
    wrong = misfits(signal.text, spec) if spec is not None else []
    if wrong:
        told = "\n".join(f"- {one}" for one in wrong)
        raise BadInput(
            f"{signal.tool}: `text` is not what the phase asks for; nothing was stored, call it again with that set "
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

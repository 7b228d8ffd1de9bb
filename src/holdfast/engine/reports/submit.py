"""Receives agents' reports: validated, then durable in the run's inbox, and only then acknowledged."""

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.core.messages.reports import arguments_text
from holdfast.core.messages.schema import RefusedReport, Report
from holdfast.core.messages.signals import (
    RequestResearch,
    Signal,
    SubmitDocument,
    read_signal,
)
from holdfast.core.state import RunState
from holdfast.core.work.research import find_same_research
from holdfast.core.work.workflow import PhaseSpec, Workflow
from holdfast.engine.home import Home
from holdfast.engine.inbox.deliver import deliver
from holdfast.engine.workspace.repository import repository_folder
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.sync import sync_existing_folders
from holdfast.store.base import Message
from holdfast.store.fold import fold_log
from holdfast.workflows.artifacts import document_mistakes


class Reporter(NamedTuple):
    """Who reports, and to which run. A confined agent cannot write to the inbox and has a file of its own.

    `state` is that of the run, where it is known; otherwise the log is folded.
    """

    home: Home
    run_id: str
    role: str
    conversation: str | None = None
    report_file: str | None = None
    state: RunState | None = None


class MessageId(NamedTuple):
    """The id of a report's message. It `may_exist` when another process may have stored the same report."""

    text: str
    may_exist: bool = False


async def submit_report(
    reporter: Reporter, tool: str, arguments: Mapping[str, Any], message_id: MessageId | None = None
) -> str:
    """Store one report and return the reply to the agent.

    `BadInput` says what is wrong with it; then the run records only that.
    """
    message_id = message_id or MessageId(secrets.token_hex(12))
    state = reporter.state or await _state_of(reporter)
    try:
        signal = read_signal(reporter.role, tool, arguments)
        if isinstance(signal, SubmitDocument):
            _validate_document(signal, _phase_of(reporter, state))
    except BadInput as error:
        refused = RefusedReport(
            reporter.role,
            _replace_surrogates(tool),
            _replace_surrogates(str(error)),
            arguments_text(arguments),
            reporter.conversation,
        )
        await _deliver(reporter, refused, message_id)
        raise
    await sync_existing_folders(*_written_paths(reporter, state))  # what it names is durable before the report is
    report = Report(tool, reporter.role, msgspec.to_builtins(signal), reporter.conversation)
    await _deliver(reporter, report, message_id)
    return _acknowledgement(state, reporter.conversation, signal)


async def _deliver(reporter: Reporter, report: Report | RefusedReport, message_id: MessageId) -> None:
    """Write the message durably where the run collects it."""
    message = Message.of(report, message_id=message_id.text, sender=reporter.conversation or reporter.role)
    store = reporter.home.store
    if reporter.report_file is not None:
        await deliver(store.open_report_file(reporter.report_file), message)
    elif message_id.may_exist:
        await store.inbox(reporter.run_id).put_if_absent(message)
    else:
        await deliver(store.inbox(reporter.run_id), message)


def _acknowledgement(state: RunState, conversation_id: str | None, signal: Signal) -> str:
    known = (
        find_same_research(state, conversation_id or "", signal.question)
        if isinstance(signal, RequestResearch)
        else None
    )
    if known is None:
        return "received"
    how = "was answered before" if state.research[known].answered else "is being researched already"
    return f"received; the same question {how}, and its answer comes to you as a message"


def _replace_surrogates(text: str) -> str:
    """Replace halves of characters, which an agent may send and no file can hold."""
    return text.encode(errors="replace").decode()


def _written_paths(reporter: Reporter, state: RunState) -> list[str]:
    """Its files are in the run's folder; its commits are in the repository, which may be on another disk."""
    repository = repository_folder(reporter.home, state.run)
    return [reporter.home.folder(reporter.run_id), *([repository] if repository is not None else [])]


def _validate_document(signal: SubmitDocument, spec: PhaseSpec | None) -> None:
    wrong = document_mistakes(signal.text, spec) if spec is not None else []
    if wrong:
        list_text = "\n".join(f"- {mistake}" for mistake in wrong)
        raise BadInput(
            f"{signal.tool}: `text` is not what the phase asks for; it was not taken; call it again with that set "
            f"right:\n{list_text}"
        )


async def _state_of(reporter: Reporter) -> RunState:
    """Return the run's state; an empty one for an agent that cannot reach its store, which checks it later."""
    if reporter.report_file is not None and not reporter.home.index.has_run(reporter.run_id):
        return RunState()
    store = reporter.home.store
    return (await fold_log(store.log(reporter.run_id), await store.snapshot(reporter.run_id))).fold.state


def _phase_of(reporter: Reporter, state: RunState) -> PhaseSpec | None:
    """Return the phase that the reporter works on, from the run's log."""
    conversation = state.conversations.get(reporter.conversation or "")
    if conversation is None or state.workflow is None:
        return None
    return msgspec.convert(state.workflow, Workflow).phase(conversation.about)

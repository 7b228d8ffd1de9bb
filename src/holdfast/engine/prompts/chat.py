"""Prompts of a chat: the user's own text, and what Holdfast has to add that the agent cannot know."""

from collections.abc import Sequence

import msgspec

from holdfast.core.messages.notices import plan_notice_key
from holdfast.core.state import RunState
from holdfast.core.task_state import Check, Task
from holdfast.engine.prompts.templates import user_folders
from holdfast.workflows.prompt_templates import INTERVIEWER, fill_template, find_template
from holdfast.workflows.task_prompts import failed_check_sections


def first_message(task: Task) -> str:
    """The message that a chat began with."""
    return task.description or task.summary or ""


def interview_prompt(state: RunState, task: Task) -> str:
    """The first prompt of an interview."""
    template = find_template(INTERVIEWER, None, user_folders(state, "prompts"))
    return fill_template(template, {"goal": f"The goal:\n\n{first_message(task)}"})


def plan_notice(state: RunState) -> dict[str, str]:
    """What the interviewer cannot know: the user changed its plan."""
    interview = state.interview
    if interview is None or not interview.unheard:
        return {}
    plan = msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(interview.tasks))).decode()
    changed = f"The user changed the plan. It is now:\n\n{interview.overview}\n\n```json\n{plan}\n```"
    return {plan_notice_key(interview.revision): changed}


def chat_prompt(state: RunState, task: Task, messages: Sequence[str], notices: Sequence[str]) -> str:
    """The text of one prompt: notices and failed checks, then the messages, then instructions for every prompt."""
    standing = ["Instructions for all of this work:", *state.instructions] if state.instructions else []
    return "\n\n".join(part for part in (*notices, *_since_accepted(state, task), *messages, *standing) if part)


def _since_accepted(state: RunState, task: Task) -> list[str]:
    """Why accepted work was not merged, unless a prompt has said it already."""
    worker = state.conversations.get(task.worker or "")
    if worker is None or worker.turns > task.since:
        return []
    failed: list[Check] = [check for check in task.checks if check.is_failure]
    parts = [*failed_check_sections(failed)]
    if task.conflicts:
        files = ", ".join(task.conflicts)
        parts.append(f"Merging your work conflicts with other work. The conflicts are in your worktree, in {files}.")
    return ["The work so far was accepted, but could not be merged.", *parts] if parts else []


def reopened_prompt(task: Task, text: str) -> str:
    """The first prompt of a new conversation about finished work."""
    return (
        f"This continues work that was finished before. It began with this message:\n\n{first_message(task)}\n\n{text}"
    )

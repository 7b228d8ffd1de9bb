"""Chat: what a person decides between turns, and the states of a task that waits for its user."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import Event


class TaskStateChanged(Event, frozen=True, kw_only=True):
    """A task of a chat is worked on (`in_progress`) or waits for its user (`review`)."""

    type: ClassVar[str] = "task.state_changed"
    task_id: str | int = msgspec.field(name="taskId")
    state: str
    reason: str | None = None


class TaskAccepted(Event, frozen=True, kw_only=True):
    """The user accepted the work of an iteration: it is checked, committed and merged. `finish`: the chat ends then."""

    type: ClassVar[str] = "task.accepted"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    by: str | None = None
    finish: bool = False


class IterationAccepted(Event, frozen=True, kw_only=True):
    """Accepted work is merged, and the next iteration begins on it. Without a `commit`, nothing had changed."""

    type: ClassVar[str] = "iteration.accepted"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    commit: str | None = None


class OptionChosen(Event, frozen=True, kw_only=True):
    """A person chose a mode, a model or another option of an agent; None: the agent's own choice again.

    It is set in the running agent, and again whenever the agent is restarted.
    """

    type: ClassVar[str] = "conversation.option_chosen"
    conversation: str
    option: str
    value: str | None = None
    by: str | None = None


class RuleAdded(Event, frozen=True, kw_only=True):
    """A person always allows this in the run: a kind of tool with exactly this command or these paths.

    The agent is not told: it asks again, and gets the permission for that one call.
    """

    type: ClassVar[str] = "permission.rule_added"
    rule: str
    kind: str | None = None
    command: str | None = None
    paths: list[str] = []
    request: str | None = None
    by: str | None = None


class RuleRevoked(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "permission.rule_revoked"
    rule: str
    by: str | None = None


class MessageEdited(Event, frozen=True, kw_only=True):
    """A person changed the text of a message that no prompt had delivered yet."""

    type: ClassVar[str] = "inbox.edited"
    message: str
    text: str
    by: str | None = None


class MessageDeleted(Event, frozen=True, kw_only=True):
    """A person took back a message that no prompt had delivered yet."""

    type: ClassVar[str] = "inbox.deleted"
    message: str
    by: str | None = None


FAMILY = (
    TaskStateChanged,
    TaskAccepted,
    IterationAccepted,
    OptionChosen,
    RuleAdded,
    RuleRevoked,
    MessageEdited,
    MessageDeleted,
)

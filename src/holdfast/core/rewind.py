"""Rewinding as pure functions: which parts of a log are abandoned, and the state after a rewind.

The log is never cut. A rewind is an event that names a position; what lies between that position and the event is
abandoned, and every reader skips it. Undoing a rewind is a rewind to the position of the undone event.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events.rewind import RewindAxis, RunRewound
from holdfast.core.state import Conversation, ForkSource, OpenMessage, OpenRewind, Rewind, RunState, Session

Range = tuple[int, int]
_CARRIED_FIELDS = (  # of the run as it is now, not as it was: these cannot be taken back
    "lines",
    "events",
    "feature",
    "run",
    "effects",
    "effects_settled",
    "published",
    "budget",
    "limits",
    "inbox_cursor",
    "inbox_last",
    "inbox_reread",
    "inbox_consumed",
    "answered",
    "repairs",
    "withheld",
    "malformed",
    "duplicates",
    "unknown_types",
    "newer",
    "notes_dropped",
    "rewinds",
)


def live_ranges(rewinds: Sequence[Rewind], end: int) -> list[Range]:
    """The parts of a log up to `end` that count, as sorted [start, end) positions.

    They lead back from the end: a rewind continues from its target, so what lies between is on no path to the end.
    """
    found: list[Range] = []
    for rewind in reversed(rewinds):
        if rewind.at < end:
            found.append((rewind.at, end))
            end = rewind.to
    return [(0, end), *reversed(found)]


def abandoned_ranges(rewinds: Sequence[Rewind], end: int) -> list[Range]:
    """The parts of a log up to `end` that no longer count, as sorted [start, end) positions."""
    live = live_ranges(rewinds, end)
    return [(before[1], after[0]) for before, after in pairwise(live) if before[1] < after[0]]


def is_abandoned(rewinds: Sequence[Rewind], position: int, end: int) -> bool:
    """Whether the line that begins at a position no longer counts."""
    return any(start <= position < stop for start, stop in abandoned_ranges(rewinds, end))


def copy_of(state: RunState) -> RunState:
    return msgspec.json.decode(msgspec.json.encode(state), type=RunState)


def rewound_state(then: RunState, now: RunState, event: RunRewound) -> RunState:
    """The state after a rewind: as it was `then`, with what cannot be taken back as it is `now`. Owns `then`.

    Messages that were handled since stay handled, and those that still wait keep waiting. A rule that was revoked stays
    revoked. An agent that spoke since must not continue from its own session, which remembers what was rewound.
    """
    for name in _CARRIED_FIELDS:
        setattr(then, name, getattr(now, name))
    then.sessions = _sessions_after(then, now, event)
    then.rewinds = [*now.rewinds, Rewind(event.at, event.position)]
    then.rules = {key: rule for key, rule in then.rules.items() if key in now.rules}
    then.messages = {key: _message_after(then, message) for key, message in now.messages.items()}
    for phase_id, phase in then.phases.items():
        phase.published = phase.published or (phase_id in now.phases and now.phases[phase_id].published)
    for conversation_id, conversation in then.conversations.items():
        _restore_conversation(conversation, now.conversations.get(conversation_id), event)
    for agent_id, agent in then.agents.items():
        agent.active = agent.active and agent_id in now.agents and now.agents[agent_id].active
    if event.only == RewindAxis.CONVERSATION:
        then.branches, then.rewinding = now.branches, now.rewinding
    else:
        then.rewinding = OpenRewind(event.at, event.position, event.only, event.point)
    vars(then).clear()  # the indexes of `core.task_index`
    return then


def _sessions_after(then: RunState, now: RunState, event: RunRewound) -> dict[str, Session]:
    """All sessions, ended as they were at the point: else a run that was finished since would still count as done.

    A session that worked at the point has ended there by the rewind. When a rewind is undone, it is as it was before.
    """
    newest = then.newest_session()
    for sid, session in now.sessions.items():
        earlier = then.sessions.get(sid)
        session.abandoned = earlier.abandoned if earlier is not None else not session.upkeep
        if earlier is not None and not earlier.upkeep:
            session.upkeep, session.ended = False, earlier.ended
            session.end_reason, session.end_detail = earlier.end_reason, earlier.end_detail
    if newest is not None and not newest.ended and event.undoes is None:
        worked = now.sessions[newest.sid]
        worked.ended, worked.end_reason = True, EndReason.IDLE if then.is_chat else EndReason.REWOUND
    return now.sessions


def _message_after(then: RunState, message: OpenMessage) -> OpenMessage:
    """A message for a conversation that does not exist any more is for its task."""
    if message.conversation is None or message.conversation in then.conversations:
        return message
    return msgspec.structs.replace(message, conversation=None)


def _restore_conversation(then: Conversation, now: Conversation | None, event: RunRewound) -> None:
    """Its notice, that files and memory differ, is that of the point when the files go back too."""
    if now is None:  # it was opened in a part that was abandoned before, and its rewind is undone
        _leave_session(then)
        return
    then.cost, then.tokens, then.priced, then.estimate = now.cost, now.tokens, now.priced, now.estimate
    then.pid, then.start_time, then.boot_id = now.pid, now.start_time, now.boot_id
    if (then.last_turn, then.interrupted_turns) == (now.last_turn, now.interrupted_turns):
        then.token, then.dollars, then.blank = now.token, now.dollars, now.blank
        then.last_message, then.fork_source = now.last_message, now.fork_source
        then.rewound = now.rewound if event.only == RewindAxis.CONVERSATION else then.rewound
        return
    _leave_session(then)
    then.dollars, then.blank = 0.0, False
    then.limited = then.limited and event.undoes is not None  # a person went back to say something else
    is_undone_at_once = event.undoes is not None and now.rewound is not None  # the files did not change in between
    if event.only == RewindAxis.CONVERSATION and not is_undone_at_once:
        then.rewound = FILES_AHEAD_NOTICE


def _leave_session(then: Conversation) -> None:
    """The agent must not continue from the session that it had, but may from a copy that ends at this point."""
    if then.token is not None and then.last_message is not None and not then.blank:
        then.fork_source = ForkSource(then.token, then.last_message)
    then.token = None


FILES_AHEAD_NOTICE = (
    "The conversation was set back to an earlier point, and the files were not: the worktree may have changes that "
    "you do not remember. Look at the files as they are before you change them."
)
FILES_BEHIND_NOTICE = (
    "The files of your worktree were set back to an earlier point ({point}), and the conversation was not: changes "
    "that you remember making since then are not in the worktree any more. Look at the files as they are."
)
FILES_RETURNED_NOTICE = (
    "A rewind of the files of your worktree was taken back: they are again what they were before it. "
    "Look at the files as they are."
)

"""Handlers of rewinds. `Fold` replaces the state itself when events are abandoned: see `core.rewind`."""

from holdfast.core.events.rewind import RewindAxis, RewindFinished, RunForked, RunRewound
from holdfast.core.fold.handlers.base import on
from holdfast.core.log.codec import Line
from holdfast.core.rewind import FILES_BEHIND_NOTICE, FILES_RETURNED_NOTICE
from holdfast.core.state import OpenRewind, RunState


@on(RunRewound)
def _files_rewound(state: RunState, _: Line, event: RunRewound) -> None:
    """Only the files go back: the state stays, and the agents are told."""
    if event.only != RewindAxis.FILES:
        return
    state.rewinding = OpenRewind(event.at, event.position, event.only, event.point)
    behind = FILES_BEHIND_NOTICE.format(point=event.point or "earlier")
    for conversation in state.conversations.values():
        if conversation.turns and conversation.started:
            is_undone_at_once = event.undoes is not None and conversation.rewound is not None
            conversation.rewound = FILES_RETURNED_NOTICE if is_undone_at_once else behind


@on(RunForked)
def _run_forked(state: RunState, _: Line, event: RunForked) -> None:
    state.rewinding = OpenRewind(0, 0, RewindAxis.BOTH, event.point, event.branches, event.snapshots)


@on(RewindFinished)
def _rewind_finished(state: RunState, _: Line, __: RewindFinished) -> None:
    state.rewinding = None

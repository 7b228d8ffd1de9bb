"""`holdfast ls` must not load `enum`, so two modules spell statuses as strings: here they are compared."""

from holdfast.app.text import screen
from holdfast.core.end_reason import RESUMABLE_REASONS, EndReason
from holdfast.core.phase_state import PhaseStatus
from holdfast.core.run_status import RunStatus
from holdfast.core.task_state import TaskStatus
from holdfast.engine.queries import runs


def test_listing_spells_the_statuses_as_the_enum_does() -> None:
    assert (runs._OPEN, runs._RUNNING, runs._INTERRUPTED) == (
        RunStatus.OPEN,
        RunStatus.RUNNING,
        RunStatus.INTERRUPTED,
    )
    assert runs.status_of(RunStatus.OPEN, lambda: True) == RunStatus.RUNNING
    assert runs.status_of(RunStatus.OPEN, lambda: False) == RunStatus.INTERRUPTED


def test_reason_of_another_version_is_passed_on() -> None:
    assert runs.status_of("of a newer version", lambda: True) == "of a newer version"
    assert "of a newer version" not in RESUMABLE_REASONS


def test_only_known_statuses_have_colours() -> None:
    assert screen._STATUS_COLOURS.keys() <= {*RunStatus, *EndReason, *TaskStatus, *PhaseStatus}

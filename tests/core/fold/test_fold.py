import random
import time

import pytest

from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted
from holdfast.core.fold.fold import Fold, SupersededLines
from holdfast.core.state import MAX_KEPT, RunState
from holdfast.core.task_state import TaskStatus
from tests.core.logs import entry, fold_all, fold_once, foreign, session_log

RUN = RunCreated(run_id="r1", goal="g")
FRESH = SessionStart(command="implement")
RESUME = SessionStart(command="resume")
PLAN = PlanCreated(tasks=[PlannedTask(id="1"), PlannedTask(id="2")])
DONE = TaskCompleted(task_id="1")
POINT = Checkpoint(label="wave-1", plan_step="wave-2")
ERROR = ErrorEncountered(error="E", file="a.py")


def statuses(state: RunState) -> dict[str, str]:
    return {name: task.status.value for name, task in state.tasks.items()}


# Lines


def test_an_empty_log_is_an_empty_state() -> None:
    assert fold_once(b"").state == RunState()


def test_every_line_is_counted_and_every_event() -> None:
    state = fold_once(b"\n" + entry(FRESH) + b"garbage\n\r\n" + entry(DONE, 1)).state
    assert (state.lines, state.events, state.sessions["s1"].events) == (5, 2, 2)


def test_what_could_not_be_read_is_noted_with_its_line() -> None:
    state = fold_once(b"\n" + entry(FRESH) + b"garbage\n" + foreign("task.started", 1) + b'{"sid":\n').state
    assert [note.line for note in state.malformed] == [3, 4, 5]
    assert state.malformed[1].reason.startswith("data does not fit task.started: ")


def test_of_many_notes_the_first_are_kept_and_the_others_counted() -> None:
    state = fold_once(b"garbage\n" * (MAX_KEPT + 7)).state
    assert (len(state.malformed), state.notes_dropped) == (MAX_KEPT, 7)


def test_unknown_types_and_newer_versions_are_counted_and_move_nothing_else() -> None:
    state = fold_once(
        entry(FRESH)
        + foreign("somebody.elses", 1, data={"taskId": "1"})
        + foreign("somebody.elses", 2, v=9)
        + foreign("task.started", 3, v=2, data={"taskId": "1"})
        + foreign("session.end", 4, v=2)
        + foreign("message.recorded", 5, v=2)
    ).state
    assert state.unknown_types == {
        "somebody.elses": 1,
        "somebody.elses v9": 1,
        "task.started v2": 1,
        "session.end v2": 1,
        "message.recorded v2": 1,
    }
    assert (state.tasks, state.malformed, state.sessions["s1"].ended) == ({}, [], False)
    assert (state.events, state.sessions["s1"].seen) == (6, [[0, 5]])


def test_of_many_unknown_types_the_first_are_kept_and_the_others_counted() -> None:
    state = fold_once(b"".join(foreign(f"type-{number}", number) for number in range(MAX_KEPT + 7))).state
    assert (len(state.unknown_types), state.notes_dropped) == (MAX_KEPT, 7)


def test_data_that_does_not_fit_moves_nothing_but_the_sequence_number() -> None:
    state = fold_once(entry(FRESH) + foreign("task.started", 1, data=[1]) + foreign("task.failed", 2)).state
    assert (state.tasks, state.issues, state.sessions["s1"].seen) == ({}, [], [[0, 2]])


def test_int_and_text_ids_are_the_same_task() -> None:
    log = foreign("task.started", 0, data={"taskId": 7}) + foreign("task.completed", 1, data={"taskId": "7"})
    assert statuses(fold_once(log).state) == {"7": "COMPLETE"}


def test_bom_and_crlf_do_not_matter() -> None:
    plain = entry(FRESH) + entry(PLAN, 1) + entry(DONE, 2)
    assert fold_once(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")).state == fold_once(plain).state


def test_a_fold_fed_in_pieces_is_the_fold_of_the_whole() -> None:
    log = session_log(FRESH, PLAN, DONE, POINT, ERROR)
    fold = Fold()
    for line in log.splitlines(keepends=True):
        fold.feed(line)
    assert fold.state == fold_once(log).state


def test_folding_twice_gives_the_same() -> None:
    log = session_log(RUN, FRESH, PLAN, DONE, POINT, ERROR) + b"garbage\n" + session_log(RESUME, DONE, sid="s2")
    assert fold_all(log) == fold_all(log)


# Sequence numbers


def seen(*seqs: int) -> list[list[int]]:
    return fold_once(b"".join(foreign("x", seq) for seq in seqs)).state.sessions["s1"].seen


@pytest.mark.parametrize(
    ("seqs", "ranges"),
    [
        ((0,), [[0, 0]]),
        ((5,), [[5, 5]]),
        ((0, 1, 2), [[0, 2]]),
        ((0, 1, 5, 6), [[0, 1], [5, 6]]),
        ((5, 0), [[0, 0], [5, 5]]),
        ((2, 1, 0), [[0, 2]]),
        ((0, 2, 4, 3), [[0, 0], [2, 4]]),
        ((0, 2, 4, 3, 1), [[0, 4]]),
        ((0, 9, 4), [[0, 0], [4, 4], [9, 9]]),
        ((0, 9, 8), [[0, 0], [8, 9]]),
        ((0, 0, 0), [[0, 0]]),
        ((0, 1, 2, 1), [[0, 2]]),
    ],
)
def test_sequence_numbers_are_kept_as_ranges(seqs: tuple[int, ...], ranges: list[list[int]]) -> None:
    assert seen(*seqs) == ranges


def test_numbers_that_come_in_any_order_make_one_range_when_none_is_missing() -> None:
    seqs = list(range(500))
    random.Random(7).shuffle(seqs)
    assert seen(*seqs) == [[0, 499]]


@pytest.mark.parametrize("kind", ["x", "message.recorded"])
def test_a_log_full_of_gaps_is_read_in_time(kind: str) -> None:
    """Some tools number by the clock: every line leaves a gap."""
    count, begun = 50_000, time.process_time()
    line = b'{"sid":"s","seq":%d,"type":"%s"}\n'
    log = b"".join(line % (number * 2, kind.encode()) for number in range(count))
    assert len(fold_once(log).state.sessions["s"].seen) == count
    assert time.process_time() - begun < 20


# Twice the same number


def test_of_two_lines_with_one_number_the_later_counts() -> None:
    log = entry(FRESH) + entry(TaskStarted(task_id="1"), 1) + entry(DONE, 2) + entry(TaskStarted(task_id="2"), 2)
    state = fold_all(log)
    assert statuses(state) == {"1": "IN_PROGRESS", "2": "IN_PROGRESS"}
    assert (state.lines, state.events, state.sessions["s1"].events) == (4, 3, 3)


def test_a_repeated_number_is_noted_with_its_line() -> None:
    fold = fold_once(entry(FRESH) + entry(DONE, 1) + entry(DONE, 1))
    assert [(note.line, note.reason) for note in fold.state.duplicates] == [
        (3, "session s1 has seq 1 twice: the later one counts")
    ]
    assert fold.repeated == {("s1", 1)}


@pytest.mark.parametrize(
    "undone",
    [POINT, ERROR, TaskFailed(task_id="1"), DONE, SessionEnd(), BlockerReported(), WarningLogged(), PLAN, RUN],
    ids=lambda event: event.type,
)
def test_a_line_that_a_later_one_replaces_leaves_no_trace(undone: SessionEnd) -> None:
    tail = entry(MessageRecorded(conversation="c", speaker="user", text="hi"), 1) + entry(WarningLogged(), 2)
    replaced = fold_all(entry(FRESH) + entry(undone, 1) + tail)
    never = fold_all(entry(FRESH) + b"\n" + tail)
    assert replaced == never


def test_a_checkpoint_that_is_replaced_gives_back_the_issues_before_it() -> None:
    state = fold_all(entry(FRESH) + entry(ERROR, 1) + entry(POINT, 2) + entry(WarningLogged(), 2))
    assert (state.checkpoints, [issue.seq for issue in state.issues]) == ([], [1])


def test_three_lines_with_one_number_leave_the_last() -> None:
    log = entry(FRESH) + b"".join(entry(TaskStarted(task_id=task), 1) for task in ("1", "2", "3"))
    assert statuses(fold_all(log)) == {"3": "IN_PROGRESS"}


def test_the_same_number_in_two_sessions_is_no_repetition() -> None:
    assert fold_once(session_log(FRESH, DONE) + session_log(RESUME, DONE, sid="s2")).repeated == set()


def test_a_replacement_that_cannot_be_read_replaces_all_the_same() -> None:
    state = fold_all(entry(FRESH) + entry(POINT, 1) + foreign("checkpoint", 1))
    assert state.checkpoints == []
    assert len(state.malformed) == 1


def test_superseded_lines_are_found_over_pieces_of_a_log() -> None:
    lines = [entry(FRESH), b"\n", entry(DONE, 1), b"garbage\n", entry(DONE, 1), entry(FRESH), entry(DONE, 1)]
    older = SupersededLines({("s1", 0), ("s1", 1)})
    for line in lines:
        older.feed(line)
    assert older.lines - {0} == {1, 3, 5}


# Out of order


def test_an_issue_that_stands_after_a_checkpoint_but_came_before_it_is_none() -> None:
    log = entry(FRESH) + entry(POINT, 5) + entry(ERROR, 3) + entry(WarningLogged(), 4) + entry(DONE, 6)
    state = fold_all(log)
    assert (state.issues, state.warnings) == ([], [])


def test_an_issue_that_stands_before_a_checkpoint_but_came_after_it_counts() -> None:
    log = entry(FRESH) + entry(ERROR, 6) + entry(WarningLogged(), 7) + entry(POINT, 5)
    state = fold_all(log)
    assert [found.seq for found in [*state.issues, *state.warnings]] == [6, 7]


def test_checkpoints_are_in_the_order_of_their_numbers() -> None:
    early, late = Checkpoint(label="early"), Checkpoint(label="late")
    log = entry(FRESH) + entry(late, 9) + entry(early, 5) + entry(ERROR, 7) + entry(DONE, 10)
    state = fold_all(log)
    assert [point.label for point in state.checkpoints] == ["early", "late"]
    assert state.issues == []


def test_a_start_that_comes_late_does_not_wipe_what_its_own_session_did() -> None:
    state = fold_all(entry(PLAN, 1) + entry(DONE, 2) + entry(FRESH, 0) + entry(POINT, 3))
    assert statuses(state) == {"1": "COMPLETE", "2": "PENDING"}


def test_a_second_start_in_a_session_does_not_wipe_what_it_did() -> None:
    state = fold_all(session_log(FRESH, PLAN, DONE, POINT, FRESH))
    assert statuses(state) == {"1": "COMPLETE", "2": "PENDING"}
    assert len(state.checkpoints) == 1


# Sessions


FIRST = session_log(FRESH, PLAN, AgentSpawned(name="eng", branch="b1"), DONE, BranchMerged(name="b1"), POINT, ERROR)


def test_in_a_foreign_log_a_fresh_command_starts_afresh() -> None:
    state = fold_all(FIRST + session_log(FRESH, TaskStarted(task_id="9"), sid="s2"))
    assert statuses(state) == {"9": "IN_PROGRESS"}
    assert (state.plan, state.agents, state.checkpoints, state.branches, state.issues) == (None, {}, [], {}, [])
    assert list(state.sessions) == ["s1", "s2"]


def test_in_a_foreign_log_a_resume_goes_on() -> None:
    state = fold_all(FIRST + session_log(RESUME, TaskStarted(task_id="2"), sid="s2"))
    assert statuses(state) == {"1": "COMPLETE", "2": "IN_PROGRESS"}
    assert [point.label for point in state.checkpoints] == ["wave-1"]
    assert state.plan is not None


def test_in_the_log_of_one_run_every_session_goes_on() -> None:
    state = fold_all(
        session_log(FRESH, RUN, PLAN, DONE, POINT) + session_log(FRESH, TaskStarted(task_id="2"), sid="s2")
    )
    assert statuses(state) == {"1": "COMPLETE", "2": "IN_PROGRESS"}
    assert len(state.checkpoints) == 1


def test_what_an_earlier_session_ran_into_still_stands_when_it_is_resumed() -> None:
    """Killed right after its start, a resumed session leaves the same question as before."""
    state = fold_all(session_log(FRESH, POINT, ERROR, WarningLogged()) + session_log(RESUME, sid="s2"))
    assert ([issue.type for issue in state.issues], len(state.warnings)) == ([ERROR.type], 1)


def test_a_checkpoint_of_the_resumed_session_settles_what_came_before() -> None:
    state = fold_all(session_log(FRESH, POINT, ERROR, WarningLogged()) + session_log(RESUME, POINT, sid="s2"))
    assert (state.issues, state.warnings) == ([], [])


def test_a_fresh_start_leaves_earlier_issues_behind() -> None:
    state = fold_all(session_log(FRESH, POINT, ERROR, WarningLogged()) + session_log(FRESH, sid="s2"))
    assert (state.issues, state.warnings) == ([], [])


def test_folding_some_sessions_leaves_the_others_out() -> None:
    log = session_log(FRESH, TaskStarted(task_id="1")) + b"garbage\n" + session_log(RESUME, ERROR, sid="s2")
    state = fold_all(log, only=frozenset({"s1"}))
    assert (list(state.sessions), statuses(state), state.issues) == (["s1"], {"1": "IN_PROGRESS"}, [])
    assert (state.lines, state.events, len(state.malformed)) == (5, 2, 1)


def interleaved(*logs: bytes) -> bytes:
    """One line of each in turn."""
    rows = [log.splitlines(keepends=True) for log in logs]
    longest = max(map(len, rows))
    return b"".join(row[index] for index in range(longest) for row in rows if index < len(row))


def test_interleaved_sessions_are_each_what_they_are_alone() -> None:
    one = session_log(FRESH, PLAN, DONE, POINT, ERROR)
    other = session_log(FRESH, TaskStarted(task_id="9"), BlockerReported(), TaskFailed(task_id="9"), sid="s2")
    log = interleaved(one, other)
    for sid, alone in (("s1", one), ("s2", other)):
        among, by_itself = fold_all(log, only=frozenset({sid})), fold_all(alone)
        among.lines = by_itself.lines
        assert among == by_itself


def test_interleaved_sessions_keep_their_own_numbers() -> None:
    state = fold_once(interleaved(session_log(FRESH, DONE, DONE), session_log(FRESH, DONE, sid="s2"))).state
    assert {sid: session.seen for sid, session in state.sessions.items()} == {"s1": [[0, 2]], "s2": [[0, 1]]}


def test_what_an_older_session_still_writes_is_not_the_newer_ones_issue() -> None:
    log = session_log(FRESH, POINT) + session_log(RESUME, sid="s2")
    late = entry(ERROR, 2) + entry(WarningLogged(), 3) + entry(TaskFailed(task_id="1"), 4)
    state = fold_all(log + late)
    assert (state.issues, state.warnings) == ([], [])
    assert state.tasks["1"].status is TaskStatus.FAILED


def test_a_checkpoint_that_an_older_session_still_writes_does_not_clear_the_newer_ones_issues() -> None:
    log = session_log(FRESH, POINT) + session_log(RESUME, ERROR, WarningLogged(), sid="s2") + entry(POINT, 90)
    state = fold_all(log)
    assert (len(state.issues), len(state.warnings)) == (1, 1)


def test_the_feature_is_that_of_the_newest_session() -> None:
    log = (
        session_log(FRESH, feature="auth")
        + session_log(SessionStart(feature="billing"), sid="s2")
        + session_log(DONE, sid="s3")
    )
    assert fold_once(log).state.feature == "billing"


def test_a_checkpoint_that_an_older_session_still_writes_is_not_the_last() -> None:
    log = session_log(FRESH, POINT) + session_log(RESUME, Checkpoint(label="newer"), sid="s2") + entry(POINT, 90)
    state = fold_all(log + entry(ERROR, 0, "s2"))
    assert [point.label for point in state.checkpoints] == ["wave-1", "wave-1", "newer"]

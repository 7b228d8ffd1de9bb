"""One trial: a run in which somebody is killed at a given point, then resumed until it is done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Ended

MOST = 12  # sessions
_FAILED, _NOTHING_TO_DO, _WAITING = 1, 4, 6
RECORD = "record"
FAULTS = ("eio", "enospc")  # instead of a death


@dataclass
class Trial:
    """How each session ended, in order, and how many failpoints were reached."""

    ended: list[Ended] = field(default_factory=list)
    struck: int = 0

    def __str__(self) -> str:
        return "\n".join(f"  session {number}: {ended.code} {ended.err}" for number, ended in enumerate(self.ended, 1))


def play(place: Place, *failpoints: str | None, may_fail: bool = False) -> Trial:
    """The first session under the first failpoint, the second under the second; those after them under none.

    It `may_fail` where agents could not do their part: then it is over too.
    """
    trial = Trial()
    for number in range(MOST):
        failpoint = failpoints[number] if number < len(failpoints) else None
        ended = _next_session(place)(failpoint, f"passes-{number}")
        trial.ended.append(ended)
        must_be_civil(ended)
        trial.struck += failpoint is not None and _came_true(place, failpoint, f"passes-{number}")
        if ended.code in (0, _NOTHING_TO_DO) and not place.has_more_to_say() and place.has_done_the_rest():
            if place.scenario.publishes:
                place.outside.must_have_once(place.run_id)
            return trial
        if ended.code == _WAITING:
            place.answer(ended)
        if may_fail and ended.code == _FAILED and ended.code not in place.scenario.ends:
            return trial
        failed = failpoint is not None and failpoint.endswith(FAULTS) and ended.code == _FAILED
        assert failed or ended.code == KILLED or ended.code in place.scenario.ends, f"{failpoints}:\n{trial}"
    raise AssertionError(f"{failpoints}: not done after {MOST} sessions:\n{trial}")


def _next_session(place: Place) -> Callable[[str | None, str], Ended]:
    """A person begins, then says what they have to say, and continues what a death interrupted."""
    if not place.runs():
        return place.begin
    if place.next_command() is not None:
        return place.do_more
    return place.say_more if place.has_more_to_say() else place.resume


def _came_true(place: Place, failpoint: str, passes: str) -> bool:
    name, _, rest = failpoint.partition(":")
    passed = sum(one.point == name for one in place.passes(passes))
    return name != RECORD and passed >= int(rest.partition(":")[0])


def must_be_civil(ended: Ended) -> None:
    """Whatever befell it: it does not end by a defect of its own."""
    assert "Traceback" not in ended.err, ended.err
    assert "defect" not in ended.err, ended.err

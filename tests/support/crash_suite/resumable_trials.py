"""Many trials, one after the other, each noted: a suite that is cut off goes on where it stood."""

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from zlib import crc32

from tests.support.crash_suite.suite import NotReached
from tests.support.crash_suite.trial import Trial
from tests.support.crash_suite.trial_log import Failpoints, Finished, Shard, Tried, passed, shards, trials

_MAX_PROBLEM_CHARS = 2000  # characters of what went wrong, its end
_ENOUGH = 0.8  # of the single deaths of a shard
_TRIES = 3  # to reach a death: of two processes that pass a point, now one is the first and now the other


async def hold(
    trial: Callable[..., Awaitable[Trial]], scenario: str, wanted: Iterable[Failpoints], noted: Shard | None = None
) -> list[str]:
    """What went wrong. Of what is noted, only what did not pass yet is tried. Too few who died is wrong too."""
    report = trials(noted.way) if noted is not None else None
    before = passed(report, scenario) if report is not None else set()
    problems = []
    reached: dict[Failpoints, bool] = {}
    for failpoints in wanted:
        reached[failpoints] = True
        if failpoints in before:
            continue
        held, problem = Trial(), None
        try:
            held = await _reached(trial, failpoints)
        except NotReached:
            reached[failpoints] = False
        except Exception as error:  # noqa: BLE001 - whatever it is, it is noted, and the others are tried
            problem = "".join(traceback.format_exception(error))
            problems.append(f"{failpoints}: {problem}")
        if report is not None:
            report.add(
                Tried(scenario, failpoints, held.struck, len(held.ended), problem and problem[-_MAX_PROBLEM_CHARS:])
            )
    if noted is not None:
        missed = sum(not came for came in reached.values())
        shards().add(Finished(noted.way, scenario, noted.which, noted.of, len(reached), missed))
    return problems + too_few(reached)


async def _reached(trial: Callable[..., Awaitable[Trial]], failpoints: Failpoints) -> Trial:
    for _ in range(1, _TRIES):
        with suppress(NotReached):
            return await trial(*failpoints)
    return await trial(*failpoints)


def too_few(reached: Mapping[Failpoints, bool]) -> list[str]:
    """A suite in which nobody dies shows nothing, be all of it well: so most of the single deaths must come true.

    And some of each point that is wanted; by a later pass, if it is the only one that is, not every run comes.
    """
    single = {only: came for failpoints, came in reached.items() for only in [_only(failpoints)] if only is not None}
    missed = [failpoint for failpoint, came in single.items() if not came]
    problems = []
    if len(missed) > len(single) * (1 - _ENOUGH):
        problems.append(f"of {len(single)} single deaths {len(missed)} were not reached: {missed}")
    by_name: dict[str, list[str]] = {}
    for failpoint in single:
        by_name.setdefault(failpoint.partition(":")[0], []).append(failpoint)
    for name, failpoints in by_name.items():
        if not any(single[failpoint] for failpoint in failpoints) and (
            failpoints[1:] or failpoints[0].split(":")[1] == "1"
        ):
            problems.append(f"nobody came by at {name}, wanted as {failpoints}")
    return problems


def _only(failpoints: Failpoints) -> str | None:
    """The failpoint of a trial with a single one; a number of pages is none of a point."""
    real = [failpoint for failpoint in failpoints if failpoint is not None]
    return real[0] if len(real) == 1 and ":" in real[0] else None


def some(of: Iterable[Failpoints], most: int) -> list[Failpoints]:
    """The same ones in every shard, though not every run passes each point as often."""
    return sorted(of, key=number)[:most]


def shared_out(wanted: Iterable[Failpoints], which: int, of: int) -> Iterator[Failpoints]:
    """Each is in one of so many parts, the same whoever asks."""
    return (failpoints for failpoints in wanted if number(failpoints) % of == which)


def number(failpoints: Failpoints) -> int:
    return crc32(str(failpoints).encode())

"""Many trials, one after the other, each noted: a suite that is cut off goes on where it stood."""

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator
from zlib import crc32

from tests.support.doom.report import Dooms, Finished, Shard, Tried, left, shards, trials
from tests.support.doom.suite import NotReached
from tests.support.doom.trial import Trial

_TOLD = 2000  # characters of what went wrong, its end


async def hold(
    trial: Callable[..., Awaitable[Trial]], scenario: str, wanted: Iterable[Dooms], noted: Shard | None = None
) -> list[str]:
    """What went wrong. Of what is noted, only what did not pass yet is tried."""
    report = trials(noted.way) if noted is not None else None
    problems = []
    for dooms in wanted if report is None else left(report, scenario, wanted):
        held, problem = Trial(), None
        try:
            held = await trial(*dooms)
        except NotReached:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is noted, and the others are tried
            problem = "".join(traceback.format_exception(error))
            problems.append(f"{dooms}: {problem}")
        if report is not None:
            report.add(Tried(scenario, dooms, held.struck, len(held.ended), problem and problem[-_TOLD:]))
    if noted is not None:
        shards().add(Finished(noted.way, scenario, noted.which, noted.of))
    return problems


def some(of: Iterable[Dooms], most: int) -> list[Dooms]:
    """The same ones in every shard, though not every run passes each point as often."""
    return sorted(of, key=number)[:most]


def shared_out(wanted: Iterable[Dooms], which: int, of: int) -> Iterator[Dooms]:
    """Each is in one of so many parts, the same whoever asks."""
    return (dooms for dooms in wanted if number(dooms) % of == which)


def number(dooms: Dooms) -> int:
    return crc32(str(dooms).encode())

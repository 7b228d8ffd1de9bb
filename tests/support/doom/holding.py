"""Many trials, one after the other, each noted: a suite that is cut off goes on where it stood."""

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator
from zlib import crc32

from tests.support.doom.report import Dooms, Report, Tried, left
from tests.support.doom.trial import Trial

_TOLD = 2000  # characters of what went wrong, its end

Noted = Report[Tried] | None


async def hold(
    trial: Callable[..., Awaitable[Trial]], scenario: str, wanted: Iterable[Dooms], noted: Noted = None
) -> list[str]:
    """What went wrong. Of what is noted, only what did not pass yet is tried."""
    problems = []
    for dooms in wanted if noted is None else left(noted, scenario, wanted):
        held, problem = Trial(), None
        try:
            held = await trial(*dooms)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is noted, and the others are tried
            problem = "".join(traceback.format_exception(error))
            problems.append(f"{dooms}: {problem}")
        if noted is not None:
            noted.add(Tried(scenario, dooms, held.struck, len(held.ended), problem and problem[-_TOLD:]))
    return problems


def some(of: Iterable[Dooms], most: int) -> list[Dooms]:
    """The same ones in every shard, though not every run passes each point as often."""
    return sorted(of, key=number)[:most]


def shard(of: Iterable[Dooms], which: int, shards: int) -> Iterator[Dooms]:
    """Each is in one of them, the same whoever asks."""
    return (dooms for dooms in of if number(dooms) % shards == which)


def number(dooms: Dooms) -> int:
    return crc32(str(dooms).encode())

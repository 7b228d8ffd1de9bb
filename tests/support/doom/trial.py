"""One trial: a run in which somebody is killed at a given point, then resumed until it is done."""

from typing import NamedTuple

from tests.support.doom.nursery import KILLED, Ended
from tests.support.doom.place import Place

_MOST = 12  # sittings
_NOTHING_TO_DO = 4
RECORD = "record"


class Trial(NamedTuple):
    """How each sitting ended, the first first."""

    ended: list[Ended]

    @property
    def deaths(self) -> int:
        """Of runners."""
        return sum(ended.code == KILLED for ended in self.ended)

    def __str__(self) -> str:
        return "\n".join(f"  sitting {number}: {ended.code} {ended.err}" for number, ended in enumerate(self.ended, 1))


def play(place: Place, *dooms: str) -> Trial:
    """The first sitting under the first doom, the second under the second; those after them under none."""
    trial = Trial([])
    for number in range(_MOST):
        doom = dooms[number] if number < len(dooms) else None
        ended = (place.resume if place.runs() else place.begin)(doom, f"passes-{number}")
        trial.ended.append(ended)
        if ended.code in (0, _NOTHING_TO_DO):
            return trial
        assert ended.code == KILLED or ended.code in place.scenario.ends, f"{dooms}:\n{trial}"
    raise AssertionError(f"{dooms}: not done after {_MOST} sittings:\n{trial}")

"""One run among many: begun, killed at random, resumed, told something in between, until it is done."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from holdfast.core.events.conversation import TurnStarted
from holdfast.leaf.errors import EXIT_OK, NothingToDo, RunOwned
from tests.support.crash_suite.judge import Done, different
from tests.support.crash_suite.trial import must_be_civil
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Born, Ended
from tests.support.load.kill_targets import kill
from tests.support.load.resources import Held

WORDS = "MIND-"  # what people say, and agents know how to answer
_DONE = (EXIT_OK, NothingToDo.exit_code)
_PARKED = "(parked)"  # agents of one task that were killed time and again within one session
_MOST = 400  # sessions
_SETUP_KILLED = "it was killed by SIGKILL"  # alone, by whoever killed another session of the run and all its processes
_PATIENCE = 240.0  # seconds for a session that nobody kills, with all the others beside it
_OF_TASKS = frozenset({"evaluations", "verdicts", "tasks"})


class _OfTask(NamedTuple):
    came_to: tuple[Any, ...]
    counts: tuple[int, ...]  # iterations, evaluations, conflicts
    verdicts: list[bool]

    def is_more_of(self, usual: "_OfTask") -> bool:
        more = all(found >= least for found, least in zip(self.counts, usual.counts, strict=True))
        same = [one for one, _ in groupby(self.verdicts)] == [one for one, _ in groupby(usual.verdicts)]
        return self.came_to == usual.came_to and more and same


def _of_task(end: Mapping[str, Any], name: str) -> _OfTask:
    *came_to, iteration = end["tasks"][name]
    return _OfTask(tuple(came_to), (iteration, *end["evaluations"][name]), end["verdicts"][name])


@dataclass
class Life:
    place: Place
    dice: random.Random
    pace: float  # seconds until somebody is killed, on average
    hears: bool  # whether people send it something
    is_peace: Callable[[], bool]
    note: Callable[[Held], None]  # what a runner holds before it is disturbed
    kills: int = 0
    messages: int = 0
    sessions: list[Ended] = field(default_factory=list)

    async def lived(self) -> None:
        """Until it is done, and says so."""
        for _ in range(_MOST):
            sent = self.messages
            ended = await self._sat()
            if ended.code == NothingToDo.exit_code and self.messages == sent:  # else there may be something by now
                return
        raise AssertionError(f"{self.place.name} is not done after {_MOST} sessions:\n{self}")

    async def _sat(self) -> Ended:
        """One session. Sometimes two are begun at once, of which one has nothing to do here."""
        arguments = self.place.going_on() if self.place.runs() else self.place.beginning()
        twice = arguments[0] == "resume" and self.dice.random() < 0.15
        ended = await asyncio.gather(*(self._program(self._watched, *arguments) for _ in range(2 if twice else 1)))
        for one in ended:
            self.sessions.append(one)
            self._must_be_fine(one)
        return min(ended, key=lambda one: one.code == RunOwned.exit_code)

    async def _program(self, watch: Callable[[Born], Awaitable[Ended]], *arguments: str) -> Ended:
        """Begun while the others go on: where all programs come from, many wait."""
        with ExitStack() as stack:
            return await watch(await asyncio.to_thread(stack.enter_context, self.place.start(*arguments)))

    async def _watched(self, born: Born) -> Ended:
        while not await _is_over(born, _PATIENCE if self.is_peace() else self.dice.expovariate(1 / self.pace)):
            if (held := Held.by(born.pid)) is not None:
                self.note(held)
            if not self.is_peace():
                await self._disturb(born)
        return born.ended()

    async def _disturb(self, born: Born) -> None:
        run_id = next(iter(self.place.runs()), None)
        if self.hears and run_id is not None and self.dice.random() < 0.3:
            await self._send(run_id)
        else:
            self.kills += await asyncio.to_thread(kill, self.dice, born.pid, run_id)

    async def _send(self, run_id: str) -> None:
        self.messages += 1
        ended = await self._program(_returned, "send", run_id, f"{WORDS}{self.messages}.")
        assert ended.code == EXIT_OK, ended

    def _must_be_fine(self, ended: Ended) -> None:
        must_be_civil(ended)
        fine = (*_DONE, KILLED, RunOwned.exit_code, *self.place.scenario.ends)
        assert ended.code in fine or any(words in ended.err for words in (_PARKED, _SETUP_KILLED)), (
            f"{self.place.name}: {ended}\n{self}"
        )

    async def must_have_ended_as(self, undisturbed: Mapping[str, Any]) -> None:
        done = await Done.look(self.place)
        done.must_hold()
        wrong = different(done.end(), undisturbed) if not self.messages else self._wrong(done, undisturbed)
        assert not wrong, f"{wrong}\n{self}"
        told = sum(len(turn.messages) for turn in done.of(TurnStarted))
        assert told == self.messages, f"of {self.messages} messages {told} were told"

    def _wrong(self, done: Done, undisturbed: Mapping[str, Any]) -> dict[str, Any]:
        """Words make more work for whom they are told: more is judged, the judgement is the same. Nobody else has any.

        Told again and again, who has nothing new is accepted, or rejected, once more.
        """
        told = done.tasks_of(turn.conversation for turn in done.of(TurnStarted) if turn.messages)
        end = done.end()
        found, usual = ({name: _of_task(each, name) for name in undisturbed["tasks"]} for each in (end, undisturbed))
        wrong: dict[str, Any] = {
            name: (found[name], usual[name])
            for name in usual
            if found[name] != usual[name] and not (name in told and found[name].is_more_of(usual[name]))
        }
        return wrong | different({key: end[key] for key in end if key not in _OF_TASKS}, undisturbed)

    def __str__(self) -> str:
        return "\n".join(f"  session {number}: {one.code} {one.err}" for number, one in enumerate(self.sessions, 1))


async def _returned(born: Born) -> Ended:
    assert await _is_over(born, _PATIENCE), "it does not return"
    return born.ended()


async def _is_over(born: Born, patience: float) -> bool:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(born.code, over.set)
    try:
        await asyncio.wait_for(over.wait(), patience)
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(born.code)
    return True

"""Who is killed: the runner, one agent, the process that only stands before it, the runner's group, or all of them."""

import os
import random
import signal
from contextlib import suppress

from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK, mark_of, marked_processes
from holdfast.leaf.process.identity import ProcessIdentity

WAYS = ("runner", "agent", "wrapper", "group", "everyone")


def kill(dice: random.Random, runner: int, run_id: str | None) -> bool:
    """True when somebody was there to be killed."""
    way = dice.choice(WAYS) if run_id is not None else "runner"
    if way in ("agent", "wrapper"):
        return _kill_an_agent(dice, run_id or "", whole=way == "agent")
    with suppress(ProcessLookupError):
        if way == "group":
            os.killpg(runner, signal.SIGKILL)
        else:
            os.kill(runner, signal.SIGKILL)
    if way == "everyone":  # the runner first: it would take half of a check that was killed for a check that passed
        _end(marked_processes(RUN_MARK, run_id or ""))
    return True


def _kill_an_agent(dice: random.Random, run_id: str, *, whole: bool) -> bool:
    """One conversation's processes; or the eldest of them alone, whom the others outlive."""
    found: dict[str, list[ProcessIdentity]] = {}
    for process in marked_processes(RUN_MARK, run_id):
        conversation = mark_of(process.pid, CONVERSATION_MARK)
        if conversation is not None:
            found.setdefault(conversation, []).append(process)
    if not found:
        return False
    victims = sorted(found[dice.choice(sorted(found))], key=lambda process: (process.start_time, process.pid))
    _end(victims if whole else victims[:1])
    return True


def _end(processes: list[ProcessIdentity]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)

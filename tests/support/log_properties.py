"""What follows from a log: its state, and what is decided from that. As text too, so that processes can be compared.

python -m tests.support.log_properties WORKFLOW < LOG
"""

import sys
from functools import cache
from hashlib import sha256

import msgspec

from holdfast.core.config.settings import Settings
from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, ActionKey, RuntimeFacts
from holdfast.core.decide.analysis import analyze
from holdfast.core.decide.phases import decide
from holdfast.core.fold.fold import Fold
from holdfast.core.state import RunState
from holdfast.core.task_state import TaskStatus
from holdfast.engine.config.run_config import RunConfig, new_run_config

LOOP = "loop"
PARALLEL = 6  # tasks


def decisions(state: RunState, workflow: str = LOOP, facts: RuntimeFacts = NOTHING_IN_PROGRESS) -> list[Action]:
    terms = _terms(workflow)
    return decide(state, terms.workflow, terms.bounds, facts)


@cache
def _terms(workflow: str) -> RunConfig:
    return new_run_config(Settings(workflow=workflow, parallel=PARALLEL), {})


def folded(*pieces: bytes) -> RunState:
    fold = Fold()
    for piece in pieces:
        fold.feed(piece)
    return fold.state


def ends_of_lines(log: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(log) if byte == ord("\n")]


def decisions_by_line(log: bytes, workflow: str) -> list[str]:
    """After each line, in the order in which things stand there: sorted, nothing would show that came out of a set."""
    fold, found = Fold(), []
    for line in log.splitlines(keepends=True):
        fold.feed(line)
        state = fold.state
        started = (name for name, task in state.tasks.items() if task.status is TaskStatus.IN_PROGRESS)
        at_work = frozenset(ActionKey("task", name) for name in started)
        chosen = [
            decisions(state, workflow, facts)
            for facts in (NOTHING_IN_PROGRESS, RuntimeFacts(busy=at_work), RuntimeFacts(stuck=at_work))
        ]
        digest = sha256(msgspec.json.encode(state) + msgspec.json.encode(analyze(state))).hexdigest()
        found.append(f"{digest} {analyze(state).decision} {chosen}")
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(decisions_by_line(sys.stdin.buffer.read(), sys.argv[1])))

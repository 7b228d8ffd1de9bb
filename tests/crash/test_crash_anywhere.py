"""Killed for real at every named point of a real run, and resumed: the end is the same every time.

`make test` tries one side of each point, once; `make torture` every pass of both sides, pairs of them, and other ways
to die. What was tried is in `.torture/crashes.jsonl`: a suite that is cut off goes on from there, and docs/recovery.md
counts it.
"""

import random
import sys
from itertools import product

import pytest

from holdfast.core.events.conversation import TurnStarted
from holdfast.core.events.work import CaseSubmitted
from holdfast.core.log.codec import Line, parse
from holdfast.store.sequencer import CONTINUATION_MARK
from tests.support.crash_suite.resumable_trials import hold, number, shared_out, some
from tests.support.crash_suite.scenarios import SCENARIOS
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites, Undisturbed, numbered
from tests.support.crash_suite.trial_log import Failpoints, Shard, Way
from tests.support.crash_suite.trial_place import Passed
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.variants import every

SHARDS = 8
_WRITES = ("journal.append", "snapshot.save", "projection.write")
_TO_BE_WRITTEN, _WRITTEN = ({f"{name}.{side}" for name in _WRITES} for side in ("before", "after"))
PAIRS = 24  # of each scenario
RESUMES = 2
EARLY = 5  # passes of a point
WAY_BACK = 20  # passes of each such session
_LONG = ("waves", "pipeline", "grand")
_TORN_OF_LONG = 3  # one of so many: a torn write leaves what one that was never begun leaves
_ONLY_SOME = {"grand": 80}  # passes: it is the pipeline once more, with more phases, and with people
_ALWAYS = {
    "grand": ("effect.push", "effect.pull_request", "effect.snapshot.restore")
}  # of these, what none but it does
_ALSO = {  # of the longer runs, what the short one does not pass
    "loop": ("validator.run.after", "worktree.setup.after", "baseline.check.before"),
    "waves": ("effect.merge.conflicts.after",),
}


async def test_killed_on_one_side_of_each_point_of_a_solo_run(suites: FailpointSuites) -> None:
    suite, dice = suites("solo"), random.Random(1)
    for failpoint in one_side_of_each((await suite.undisturbed()).one_of_each(dice), dice):
        if not failpoint.startswith("effect."):  # those are tried by the property of that name
            await suite.survives(failpoint)


def one_side_of_each(failpoints: list[str], dice: random.Random) -> list[str]:
    """Of `prompt.before:1` and `prompt.after:1`, one."""
    sides: dict[str, list[str]] = {}
    for failpoint in failpoints:
        sides.setdefault(failpoint.partition(":")[0].rpartition(".")[0], []).append(failpoint)
    return [dice.choice(of_one) for of_one in sides.values()]


async def test_killed_where_the_built_in_agent_saves_or_acts(suites: FailpointSuites) -> None:
    """And comes back. At its other points it dies alone, or in the long tests."""
    suite = suites("builtin")
    await suite.survives(random.Random(6).choice((await suite.undisturbed()).named("builtin.shell.after")))


@pytest.mark.parametrize("name", _ALSO)
async def test_killed_where_only_longer_runs_come_by(suites: FailpointSuites, name: str) -> None:
    suite = suites(name)
    undisturbed = await suite.undisturbed()
    for point in _ALSO[name]:
        await suite.survives(random.Random(2).choice(undisturbed.named(point)))


async def test_killed_in_a_phase_and_between_two(suites: FailpointSuites) -> None:
    """A review that failed leads to its fix, whoever dies; and no phase is gone through twice."""
    trial = await suites("pipeline").survives("artifact.write.before:1", "prompt.before:2", "mcp.call.after:1")
    assert trial.struck == 3


@pytest.mark.torture
async def test_killed_where_a_run_takes_back_what_a_reviewer_wrote_and_publishes(suites: FailpointSuites) -> None:
    """It is at the remote once, as it is here, with one pull request (`tests.support.crash_suite.remote_services`)."""
    back, pushed, asked = "effect.snapshot.restore.before:1", "effect.push.after:1", "effect.pull_request.after:1"
    trial = await suites("grand").survives(None, back, None, None, pushed, asked)
    assert trial.struck == 3


@pytest.mark.parametrize(
    "failpoints",
    every(
        2,
        [
            ((None, "inbox.append.after:1"),),  # the sender, whose message is in the inbox
            ((None, "runner.detach.before:1"),),  # the sender, before it started a runner
            ((None, "prompt.after:1"),),
            ((None, None, None, None, "journal.append.torn:14"),),  # nothing is left to do, but to repair the log
            ((None, None, None, None, "effect.merge.after:1"),),  # the next iteration is not begun
        ],
    ),
    ids=lambda failpoints: failpoints[-1],
)
async def test_killed_in_a_chat(suites: FailpointSuites, failpoints: Failpoints) -> None:
    """Every message is delivered once, whoever dies: sender, runner or agent."""
    await suites("chatting").survives(*failpoints)


@pytest.mark.parametrize(
    ("name", "failpoints"),
    every(
        3,
        [
            ("rewinding", ("effect.worktree.make.before:1",)),  # at its start, the run had no branch
            ("rewinding", (None, "run.rewind.before:1")),
            ("rewinding", (None, None, None, "effect.worktree.rewind.after:1")),  # back to the start
            ("rewinding", (None, "run.rewind.after:1", "effect.worktree.rewind.before:1")),
            (
                "rewinding",
                (None, None, None, None, None, "worktree.rewind.moved:1", "rewind.finish.before:1"),
            ),  # its undo
            ("forking", (None, "run.fork.before:1")),
            ("forking", (None, "effect.refs.keep.after:1", "effect.worktree.rewind.before:1")),
        ],
    ),
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
async def test_killed_in_a_rewind_and_in_a_fork(suites: FailpointSuites, name: str, failpoints: Failpoints) -> None:
    """The run continues from the point that was asked for, with all that it had there, to the same end."""
    trial = await suites(name).survives(*failpoints)
    assert trial.struck == sum(failpoint is not None for failpoint in failpoints)


async def test_killed_again_while_it_comes_back(suites: FailpointSuites) -> None:
    suite = suites("again")
    await suite.survives("effect.commit.failed.before:1", "effect.settle.after:1", "journal.append.torn:2")


async def test_a_task_whose_failure_a_death_cut_off_is_failed_and_nobody_decides_of_it_unasked(
    suites: FailpointSuites,
) -> None:
    trial = await suites("capped").survives("effect.commit.failed.after:1")
    assert [ended.code for ended in trial.ended] == [KILLED, 1, 0]


@pytest.mark.parametrize("most", [2, pytest.param(sys.maxsize, marks=pytest.mark.torture)])
async def test_killed_where_only_a_resume_comes_by(suites: FailpointSuites, most: int) -> None:
    suite = suites("solo")
    known = {failpoint.rpartition(":")[0] for failpoint in (await suite.undisturbed()).passes}
    first = "effect.merge.before:1"
    only = [failpoint for failpoint in suite.passed_after(first) if failpoint.rpartition(":")[0] not in known]
    assert "effect.settle.before:1" in only
    for failpoint in only[:most]:
        await suite.survives(first, failpoint)


async def test_words_of_a_person_reach_the_agent_whoever_dies(suites: FailpointSuites) -> None:
    """What the agent then does shows that it heard them, be it when it is told to go on."""
    suite = suites("spoken")
    await suite.survives("prompt.after:1:everyone")


async def test_a_turn_whose_beginning_was_torn_has_not_begun(suites: FailpointSuites) -> None:
    """Its first event may be on the disk, without the words that it begins with: half of a call is none of it."""
    suite = suites("spoken")
    trial = await suite.survives(torn_with(TurnStarted.type, (await suite.undisturbed()).log))
    assert trial.struck == 1


def torn_with(kind: str, log: bytes) -> str:
    """The tearing of the commit that holds the first event of this kind."""
    return f"journal.append.torn:{commits_until(kind, log, of_session=True)}"


async def test_whoever_dies_after_a_case_is_told_what_its_checks_found_and_loses_no_attempt(
    suites: FailpointSuites,
) -> None:
    """The turn of the worker is cut off when its report is in: it has done what it was told."""
    suite = suites("loop")
    commits = commits_until(CaseSubmitted.type, (await suite.undisturbed()).log)
    await suite.survives(f"journal.append.after:{commits}")


def commits_until(kind: str, log: bytes, *, of_session: bool = False) -> int:
    """Which commit holds the first event of this kind, counted in the whole log, or in its own session."""
    commits = 0
    for raw in log.split(b"\n")[:-1]:
        line = parse(raw)
        assert isinstance(line, Line)
        commits = (commits if line.seq or not of_session else 0) + (not raw.endswith(CONTINUATION_MARK))
        if line.type == kind:
            break
    return commits


@pytest.mark.parametrize("whom", ["group", pytest.param("everyone", marks=pytest.mark.torture)])
async def test_killed_with_its_group_or_with_all_that_it_started(suites: FailpointSuites, whom: str) -> None:
    suite = suites("solo")
    trial = await suite.survives(f"prompt.before:1:{whom}")
    assert [ended.code for ended in trial.ended] == [KILLED, 0]
    await suite.survives(f"effect.merge.before:1:{whom}")


# --- the whole of it ---------------------------------------------------------------------------------


def every_pass(undisturbed: Undisturbed) -> list[Failpoints]:
    return [
        (*[None] * number, failpoint)
        for number, passed in enumerate(undisturbed.passed)
        for failpoint in unlike(passed)
    ]


def unlike(passed: list[Passed]) -> list[str]:
    """Without those that are no other death: before a write, right after another one of the same process."""
    first = Passed("", 0)
    return [
        failpoint
        for failpoint, last, one in zip(numbered(passed), [first, *passed], passed, strict=False)
        if not (last.pid == one.pid and last.point in _WRITTEN and one.point in _TO_BE_WRITTEN)
    ]


def always(name: str, every: list[Failpoints]) -> list[Failpoints]:
    """What is tried, though of the others only some are."""
    return [
        failpoints
        for failpoints in every
        if failpoints[-1] is not None and failpoints[-1].startswith(_ALWAYS.get(name, ()))
    ]


def singles(name: str, undisturbed: Undisturbed) -> list[Failpoints]:
    """One death each: all of them; of the longer runs not every torn write, and of the longest only some."""
    every = [
        one
        for one in every_pass(undisturbed)
        if name not in _LONG or not is_torn(one) or not number(one) % _TORN_OF_LONG
    ]
    return list(dict.fromkeys([*some(every, _ONLY_SOME.get(name, sys.maxsize)), *always(name, every)]))


def is_torn(failpoints: Failpoints) -> bool:
    return any(failpoint is not None and ".torn:" in failpoint for failpoint in failpoints)


def pairs(suite: FailpointSuite, undisturbed: Undisturbed) -> list[Failpoints]:
    """A seeded sample: the runner is killed, and killed again early on its way back, where others came by on theirs."""
    dice = random.Random(3)
    known = [{*suite.passed_after(first)} for first in come_back_from(undisturbed)]
    early = [failpoint for failpoint in sorted(set.intersection(*known)) if int(failpoint.rpartition(":")[2]) <= EARLY]
    return [(dice.choice(undisturbed.of_runner), dice.choice(early)) for _ in range(PAIRS)]


def other_deaths(undisturbed: Undisturbed) -> list[Failpoints]:
    dice, of_runner = random.Random(4), undisturbed.of_runner
    return [(f"{dice.choice(of_runner)}:{whom}",) for whom in ("group", "everyone") for _ in range(PAIRS // 2)]


def on_the_way_back(suite: FailpointSuite, undisturbed: Undisturbed) -> list[Failpoints]:
    """The passes of the session that follows a death, for a sample of deaths."""
    return [
        back
        for first in come_back_from(undisturbed)
        for back in some([(first, then) for then in suite.passed_after(first)], WAY_BACK)
    ]


def come_back_from(undisturbed: Undisturbed) -> list[str]:
    effects = [failpoint for failpoint in undisturbed.passes if failpoint.startswith(("effect.", "prompt.", "agent."))]
    return random.Random(5).sample(effects, RESUMES)


@pytest.mark.torture
@pytest.mark.parametrize(("name", "which"), list(product(SCENARIOS, range(SHARDS))))
async def test_killed_at_every_pass_of_every_point(suites: FailpointSuites, name: str, which: int) -> None:
    suite = suites(name)
    undisturbed = await suite.undisturbed()
    wanted = singles(name, undisturbed)
    wanted += pairs(suite, undisturbed) + other_deaths(undisturbed) + on_the_way_back(suite, undisturbed)
    problems = await hold(suite.survives, name, shared_out(wanted, which, SHARDS), Shard(Way.KILLED, which, SHARDS))
    assert not problems, "\n\n".join(problems)

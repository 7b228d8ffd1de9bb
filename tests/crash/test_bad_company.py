"""What others do to a run that was killed: to its files, its branches, its pids, its clock.

It goes on; or it says in a line why not, and goes on when that is put right.
"""

import os
import random
import select
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from holdfast.core.events.conversation import ConversationAttached
from holdfast.core.events.session import SessionStart
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import identify, kill_processes
from tests.support import user_actions as deeds
from tests.support.crash_suite.judge import Done
from tests.support.crash_suite.program import CLOCK, FILE_SIZE, OBEDIENT
from tests.support.crash_suite.scenarios import SOLO
from tests.support.crash_suite.small_disk import must_be_one_line
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites
from tests.support.crash_suite.trial import play
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Born, Ended, Nursery
from tests.support.events import events_in
from tests.support.faulty_git import GIT
from tests.support.pids import with_pid
from tests.support.runs_at_work import at_work, pages
from tests.support.variants import first
from tests.support.wait import PATIENCE, until

OWNED, NOTHING_TO_DO = 5, 4


async def killed(suite: FailpointSuite, failpoint: str = "prompt.after:1") -> Place:
    await suite.undisturbed()
    place = suite.place()
    assert place.begin(failpoint).code == KILLED
    return place


# --- files that are not what they were ----------------------------------------------------------------


def behind(place: Place, name: str) -> str:
    return os.path.join(place.home, name) if name == "catalog.sqlite" else place.of_run(name)


@pytest.mark.parametrize("name", first("snapshot.json", "plan.json", "catalog.sqlite"))
async def test_what_is_only_derived_is_not_missed(suites: FailpointSuites, name: str) -> None:
    """A folder has its name: it can be neither read nor written."""
    suite = suites("solo")
    place = await killed(suite)
    path = behind(place, name)
    if os.path.exists(path):
        os.unlink(path)
    os.mkdir(path)
    ended = place.resume()
    must_be_one_line(ended)
    assert ended.code == 0
    await suite.must_end_alike(place, name)


@pytest.mark.parametrize("name", first("inbox.jsonl", "events.jsonl", "owner.lock", "tether"))
async def test_what_cannot_be_read_is_named_and_the_run_goes_on_when_it_is_back(
    suites: FailpointSuites, name: str
) -> None:
    suite = suites("solo")
    place = await killed(suite)
    path, aside = place.of_run(name), os.path.join(place.folder, "aside")
    run_id = place.run_id
    os.rename(path, aside)
    os.mkdir(path)
    ended = place.call("resume", run_id, "--quiet")
    must_be_one_line(ended)
    assert ended.code == 1
    assert name in ended.err
    os.rmdir(path)
    os.rename(aside, path)
    play(place)
    await suite.must_end_alike(place, name)


@pytest.mark.parametrize("names", first(((),), (("events.jsonl",),), (("inbox.jsonl",),), (("owner.lock",),)))
async def test_what_may_not_be_written_is_named_and_the_run_goes_on_when_it_may(
    suites: FailpointSuites, names: tuple[str, ...]
) -> None:
    suite = suites("solo")
    place = await killed(suite)
    path = place.of_run(*names)
    mode = os.stat(path).st_mode
    os.chmod(path, 0o500 if os.path.isdir(path) else 0o000)
    ended = place.call("resume", os.path.basename(place.of_run()), "--quiet", **{OBEDIENT: "yes"})
    os.chmod(path, mode)
    must_be_one_line(ended)
    assert ended.code == 1
    assert "Permission denied" in ended.err
    play(place)
    await suite.must_end_alike(place, str(names))


async def test_a_home_that_may_not_be_written_is_named(suites: FailpointSuites) -> None:
    place = suites("solo").place()
    os.chmod(place.home, 0o500)
    ended = place.begin(**{OBEDIENT: "yes"})
    must_be_one_line(ended)
    assert ended.code == 1
    assert place.home in ended.err
    assert os.listdir(place.home) == []


@pytest.mark.parametrize("most", first(2048, 600, 5000, 9000))
async def test_a_file_that_may_not_grow_ends_the_session_in_a_line(suites: FailpointSuites, most: int) -> None:
    """A quota: git dies of it by a signal, and we do not."""
    suite = suites("solo")
    await suite.undisturbed()
    place = suite.place()
    ended = place.begin(**{FILE_SIZE: str(most)})
    must_be_one_line(ended)
    assert ended.code == 1
    play(place)
    await suite.must_end_alike(place, str(most))


# --- the clock, and pids ------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", first("jumping", "-864000"))
async def test_a_clock_that_goes_back_changes_nothing(suites: FailpointSuites, clock: str) -> None:
    suite = suites("solo")
    place = await killed(suite)
    assert place.resume("journal.append.after:5", "again", **{CLOCK: clock}).code == KILLED
    assert place.resume(**{CLOCK: clock}).code == 0
    await suite.must_end_alike(place, clock)


async def test_a_pid_that_belongs_to_somebody_else_now_is_left_in_peace(suites: FailpointSuites) -> None:
    suite = suites("solo")
    place = await killed(suite, "prompt.after:1:everyone")
    with open(place.of_run("events.jsonl"), "rb") as file:
        events = events_in(file.read())
    pids = {event.pid for event in events if isinstance(event, SessionStart | ConversationAttached)}
    await until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))  # the dead are buried
    with ExitStack() as strangers:
        try:
            for pid in pids:
                assert pid is not None
                strangers.enter_context(with_pid(pid))
        except OSError as error:
            pytest.skip(f"NOT TESTED: pids that were given away (a pid cannot be chosen here: {error})")
        ended = place.resume()
        must_be_one_line(ended)
        assert ended.code == 0
    await suite.must_end_alike(place, f"{pids}")


# --- what an agent leaves behind --------------------------------------------------------------------


STRAY = """
setsid env -i sh -c 'cd /; exec sleep 600' >/dev/null 2>&1 </dev/null &
until [ "$(readlink /proc/$!/exe)" = "$(readlink -f "$(command -v sleep)")" ]; do :; done
echo $! > "$HOME/stray"
"""


async def test_who_shed_all_that_it_was_known_by_is_gone_when_the_run_was_killed_and_came_back(
    warm: Nursery, tmp_path: os.PathLike[str]
) -> None:
    """It outlives its agent, and the runner: only the file that it was given tells whose it is."""
    scenario = pages(first=True)
    turns = [
        {**turn, "steps": [{"run": STRAY}, *turn["steps"]]} if turn["when"] == "ask `A`" else turn
        for turn in scenario.turns
    ]
    suite = FailpointSuite(os.fspath(tmp_path), scenario._replace(turns=turns), warm)
    place = suite.place()
    with at_work(place) as let_go:
        with open(place.of_run("events.jsonl"), "rb") as file:
            events = events_in(file.read())
        (runner,) = {event.pid for event in events if isinstance(event, SessionStart) and event.pid is not None}
        everybody = marked_processes(RUN_MARK, place.run_id)
        os.kill(runner, signal.SIGKILL)
        assert kill_processes(everybody) == []
        assert let_go().code == KILLED
    with open(os.path.join(place.folder, "stray"), encoding="ascii") as file:
        stray = identify(int(file.read()))
    assert stray is not None
    play(place)
    assert not stray.is_alive()
    (await Done.look(place)).must_hold()


# --- several at once ----------------------------------------------------------------------------------


async def two_at_once(suite: FailpointSuite, failpoint: str) -> int:
    """Started in one moment: the code of the one that did not go on."""
    place = await killed(suite, failpoint)
    with ExitStack() as stack:
        born = [stack.enter_context(place.start(*place.going_on())) for _ in range(2)]
        both = [ended_of(one) for one in born]
    codes = sorted(ended.code for ended in both)
    assert codes in ([0, NOTHING_TO_DO], [0, OWNED]), (failpoint, both)
    await suite.must_end_alike(place, f"{failpoint}: {both}")
    return codes[1]


def ended_of(born: Born) -> Ended:
    assert select.select([born.code], [], [], PATIENCE)[0], "it does not end"
    return born.ended()


async def drawn(suite: FailpointSuite, count: int) -> list[str]:
    """Deaths of the runner, from its first worktree to its last effect: a resume has something to do after each."""
    passes = (await suite.undisturbed()).of_runner
    effects = [number for number, failpoint in enumerate(passes) if failpoint.startswith("effect.")]
    return random.Random(6).choices(passes[effects[0] : effects[-1] + 1], k=count)


async def at_once_for(suite: FailpointSuite, count: int) -> None:
    """Most of those who did not go on met the one who did, at work."""
    codes = [await two_at_once(suite, failpoint) for failpoint in await drawn(suite, count)]
    assert codes.count(OWNED) > count // 2, codes


async def test_of_two_resumes_at_once_one_goes_on(suites: FailpointSuites) -> None:
    """Until the other met it at work: beside a busy machine, the other may begin when all is done."""
    suite = suites("solo")
    codes = [await two_at_once(suite, failpoint) for failpoint in await drawn(suite, 2)]
    for failpoint in await drawn(suite, 20):
        if OWNED in codes:
            return
        codes.append(await two_at_once(suite, failpoint))
    assert OWNED in codes, codes


@pytest.mark.torture
@pytest.mark.parametrize(("name", "count"), [("solo", 70), ("loop", 30)])
async def test_of_two_resumes_at_once_one_goes_on_a_hundred_times(
    suites: FailpointSuites, name: str, count: int
) -> None:
    await at_once_for(suites(name), count)


# --- what a power cut leaves --------------------------------------------------------------------------


def empty_the_objects_of(place: Place, *commits: str) -> None:
    for line in place.git("rev-list", "--objects", *commits).splitlines():
        empty(place, line.split(" ")[0])


def empty(place: Place, oid: str) -> None:
    path = os.path.join(place.repo, ".git", "objects", oid[:2], oid[2:])
    os.chmod(path, 0o600)
    os.truncate(path, 0)


@pytest.mark.parametrize("failpoint", first("lost.mend.set-back:1", None, "lost.mend.before:1", "lost.mend.after:1"))
async def test_commits_of_an_agent_that_a_power_cut_left_empty_are_made_again(
    warm: Nursery, tmp_path: os.PathLike[str], failpoint: str | None
) -> None:
    """The branch names a commit that is not there; what was in it is in the files. We may die while we mend that."""
    commit = {
        "run": "git add hello.txt && git -c user.name=A -c user.email=a@a commit -qm Mine && git rm -q shared.txt"
    }
    turns = [{"when": "the greeting", "steps": [{"write": {"path": "hello.txt", "text": "hello\n"}}, commit]}]
    files = {name: text for name, text in SOLO.files.items() if name != "shared.txt"}
    suite = FailpointSuite(os.fspath(tmp_path), SOLO._replace(name="committing", turns=turns, files=files), warm)
    place = await killed(suite, "prompt.after:1:everyone")
    task = f"holdfast/{place.run_id}/T-1"
    assert place.git("log", "-1", "--format=%s", task) == "Mine\n"
    empty_the_objects_of(place, task, "--not", "main")
    if failpoint is not None:
        assert place.resume(failpoint, "again").code == KILLED
    ended = place.resume()
    must_be_one_line(ended)
    assert ended.code == 0
    await suite.must_end_alike(place, "emptied")


@pytest.mark.parametrize("failpoint", first("lost.mend.before:1", None, "lost.mend.after:1"))
async def test_what_the_user_staged_and_a_power_cut_left_empty_is_written_again(
    suites: FailpointSuites, failpoint: str | None
) -> None:
    """It is dropped first: who dies then leaves the next to know of it."""
    place = await killed(suites("solo"), "prompt.after:1:everyone")
    deeds.put(place.repo, "staged.txt")
    place.git("add", "staged.txt")
    oid = place.git("rev-parse", ":staged.txt").strip()
    empty(place, oid)
    if failpoint is not None:
        assert place.resume(failpoint, "again").code == KILLED
    assert place.resume().code == 0
    assert place.git("cat-file", "-p", oid) == "mine\n"
    assert "garbage: 0\n" in place.git("count-objects", "-v")


@pytest.mark.parametrize("ends", first("kill -9 $$", "exit 128"))
async def test_what_git_could_not_write_again_the_next_run_does(suites: FailpointSuites, ends: str) -> None:
    """It was killed, or the disk was full."""
    place = await killed(suites("solo"), "prompt.after:1:everyone")
    deeds.put(place.repo, "staged.txt")
    place.git("add", "staged.txt")
    oid = place.git("rev-parse", ":staged.txt").strip()
    empty(place, oid)
    script = f'#!/bin/sh\ncase "$*" in *hash-object*) {ends} ;; esac\nexec "{GIT}" "$@"\n'
    git = os.path.join(place.folder, "git")
    with open(git, "x", encoding="utf-8") as file:
        file.write(script)
    os.chmod(git, 0o755)
    assert place.resume(PATH=f"{place.folder}:{os.environ['PATH']}").code == 0
    assert place.call(*place.beginning()).code == 0
    assert place.git("cat-file", "-p", oid) == "mine\n"


# --- the user's own git -------------------------------------------------------------------------------


def collect(place: Place) -> None:
    place.git("gc", "--quiet", "--prune=now")


def prune(place: Place) -> None:
    place.git("worktree", "prune", "--expire=now")


def delete_worktrees(place: Place) -> None:
    shutil.rmtree(place.of_run("workspace"))
    shutil.rmtree(place.of_run("tasks"))


def delete_and_prune(place: Place) -> None:
    delete_worktrees(place)
    prune(place)
    collect(place)


MEDDLING = [collect, prune, delete_worktrees, delete_and_prune, deeds.leave_uncommitted, deeds.commit, deeds.amend]
MORE_MEDDLING = [deeds.rebase_the_run, deeds.begin_a_rebase]


async def meddled(suite: FailpointSuite, meddle: Callable[[Place], None], failpoint: str) -> None:
    """The run's own work is as it would have been; what the user did is as the user left it."""
    place = await killed(suite, failpoint)
    meddle(place)
    users = place.git("status", "--porcelain"), place.git("rev-parse", "HEAD", "main")
    ended = place.resume()
    must_be_one_line(ended)
    assert ended.code == 0, ended
    assert (place.git("status", "--porcelain"), place.git("rev-parse", "HEAD", "main")) == users
    done = await Done.look(place)
    done.must_hold()
    place.remove()


@pytest.mark.parametrize("meddle", first(delete_and_prune, deeds.rebase_the_run))
async def test_what_the_user_does_with_git_between_a_kill_and_the_resume(
    suites: FailpointSuites, meddle: Callable[[Place], None]
) -> None:
    await meddled(suites("solo"), meddle, "prompt.before:1")


@pytest.mark.torture
@pytest.mark.parametrize("failpoint", ["prompt.before:1", "effect.worktree.make.after:2", "effect.merge.before:1"])
@pytest.mark.parametrize("meddle", MEDDLING + MORE_MEDDLING)
async def test_whatever_the_user_does_with_git_between_a_kill_and_the_resume(
    suites: FailpointSuites, meddle: Callable[[Place], None], failpoint: str
) -> None:
    await meddled(suites("solo"), meddle, failpoint)

"""Crash points: everything that must survive has one, and nobody comes upon them by accident."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.git.effects import GitEffect
from holdfast.leaf.failpoints import FILE, POINTS, WHAT
from holdfast.store.files.disk import REAL, Appending
from tests.cli.program import Program
from tests.support.crash_suite.suite import Theatres
from tests.support.crash_suite.trial_place import Place
from tests.support.durable_writes import (
    Lasting,
    half_passed,
    half_passed_in,
    lasting_functions,
    lasting_in,
    read_source,
)
from tests.support.wait import PATIENCE

RECOVERY = Path(__file__).parents[2] / "docs" / "recovery.md"

# What outlives us and has no point of its own: it is done between those of its caller,
_HOOK_COPY = (
    "of a hook that works on a copy of the repository: git died with us, and the scratch folder goes with the trash"
)
BETWEEN = {
    "agents/acp/driver.py speaking": "agent.spawn",
    "agents/playbook/actions.py _write": "playbook.deed",
    "agents/playbook/actions.py append": "playbook.deed",
    "agents/playbook/actions.py delete": "playbook.deed",
    "agents/acp/replace_file.py _fill": "file.replace",
    "agents/acp/replace_file.py _give": "file.replace",
    "agents/acp/replace_file.py _name_at_once": "file.replace",
    "agents/acp/replace_file.py _name_when_complete": "file.replace",
    "engine/hooks/process.py _called": "hook.run",
    "engine/checks/validators.py _started": "validator.run",
    "git/effects/worktrees.py MakeWorktree.sync": "effect.worktree.make",
    "git/worktree_admin.py _out_of_sight": "entry.drop",
    "git/worktrees/link.py _new_entry": "worktree.link",
    "git/worktrees/link.py _set_aside": "worktree.link",
    "git/worktrees/link.py _write": "worktree.link",
    "git/missing_objects.py forget_dropped": "lost.mend",
    "git/missing_objects.py set_back": "lost.mend",
    "git/merge.py _delete_what_git_left": "effect.merge",
    "git/worktrees/worktree.py _note_made": "effect.worktree.make",
    "git/worktrees/worktree.py _note_making": "effect.worktree.make",
    "git/worktrees/worktree.py _take_gits_lock_away": "effect.worktree.make",
    "git/worktrees/worktree.py add_worktree": "effect.worktree.make",
    "git/worktrees/worktree.py clear_half_made": "effect.worktree.make",
    "store/files/inbox.py FileInbox._write": "inbox.append",  # by the disk that it was given
    "store/files/journal.py FileJournal._commit": "journal.append",  # by the disk that it was given
    "store/files/journal.py FileJournal._take_back": "journal.append",
    "store/files/create.py _inbox_held": "run.make",
    "store/files/create.py _make_log": "run.make",
    "store/files/repair.py _opened": "log.repair",
    "store/files/repair.py _set_aside": "log.repair",
    "store/files/repair.py repair": "log.repair",
}
# or it needs none.
WITHOUT = {
    "agents/builtin/session_file.py SessionFile.create": "a session that nobody was told of yet",
    "agents/builtin/tools.py _searched": "it only reads",
    "leaf/files/contained.py open_plain": "it opens what is there: nobody who calls it asks for a new file",
    "agents/acp/file_access.py write_text": "a file of the work, written in its place where it cannot be replaced",
    "leaf/files/contained.py folder_of": "empty folders: made again",
    "agents/playbook/actions.py _leave_running": "what an agent does, by a script",
    "agents/playbook/actions.py _run_to_the_end": "what an agent does, by a script",
    "agents/playbook/program.py serve": "the same agent, once more",
    "agents/playbook/sessions.py Folder.first_time": "a script's mark of what is done once: made first",
    "agents/playbook/jsonrpc.py Wire._write": "a pipe",
    "agents/runtimes/container_proxy.py _write": "a pipe",
    "agents/runtimes/mounts.py _for_commits": "an empty file, which says nothing: made again",
    "agents/runtimes/mounts.py _made": "empty folders: made again",
    "agents/runtimes/sandbox.py _must_work": "it is asked whether it works, and does nothing",
    "agents/runtimes/sandbox.py spawned": "a file in memory",
    "agents/runtimes/tmux.py lacking": "it is asked for its version",
    "agents/tmux/control.py listening": "it only listens",
    "agents/tmux/acp_server.py Face._open": "a pipe",
    "agents/tmux/files.py Notes.__init__": "empty folders: made again",
    "agents/tmux/files.py Notes.pipe": "a pipe: one that a kill left goes when the next is made",
    "agents/tmux/server.py _private": "empty folders: made again",
    "agents/tmux/exec_agent.py main": "it becomes the agent for whom its window was made",
    "agents/process/tree.py _append": "an agent's complaints, for people: the end may be lost",
    "agents/process/tree.py _private": "an agent's complaints, for people: the end may be lost",
    "agents/process/tree.py _started": "the call itself: whoever has one `grown` has the points",
    "app/cli/attend/attach.py _become": "a person looks at a run",
    "app/tui/attach.py attach_here": "a person looks at a run",
    "app/cli/inspect/export.py _replaced": "a page, whole or not there: exported again",
    "app/cli/main.py main": "/dev/null",
    "app/html/spool.py Spool._put_by": "for as long as a page is written",
    "app/html/page.py write_page": "for as long as a page is written",
    "app/cli/live/async_writer.py Pen._written": "a terminal",
    "app/mcp/server.py serve": "a pipe",
    "engine/config/files.py trust": "the user's trust in a file: asked for again",
    "engine/config/files.py write_first": "the user's own config: whole or not there",
    "engine/demo/log.py _started": "a show, in a home of its own",
    "engine/demo/log.py _write": "a show, in a home of its own",
    "engine/demo/log.py tear": "a show, in a home of its own",
    "engine/commands/doctor.py _trash": "runs that were reset: deleted by the next who looks",
    "engine/session/artifacts.py _forget_other_forms": "looked for at every writing: the next forgets them",
    "engine/commands/supervise.py keep_alive": "empty folders: made again",
    "engine/agents/matrix.py _set_aside": "under a name that follows from its content: done again",
    "engine/agents/matrix.py keep": "what was measured of agents: measured again when it is lost",
    "engine/queries/watch_runs.py oversee": "empty folders: made again",
    "engine/commands/probe.py _Probe.__init__": "for as long as an agent is measured",
    "engine/commands/probe.py probe": "for as long as an agent is measured",
    "engine/demo/demo.py _write": "a show, in a home of its own",
    "engine/demo/demo.py git": "a show, in a home of its own",
    "engine/demo/demo.py set_up": "a show, in a home of its own",
    "engine/demo/demo.py started": "a show, in a home of its own",
    "engine/selftest/calibrate.py _start_cost": "of a selftest: a process that ends by itself",
    "engine/selftest/calibrate.py _sync_cost": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/child.py _append": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/child.py child": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/disk.py _put": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/disk.py _write_and": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/disk.py renaming": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/disk.py syncing": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/file_system.py clock": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/kernel.py _append": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/kernel.py locking": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/folder.py _made": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/folder.py _remove": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/folder.py temporary": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/runs.py _committed": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/runs.py _sat": "of a selftest, in a folder of its own: the next takes it away",
    "engine/selftest/runs.py _using_git": "of a selftest, in a folder of its own: the next takes it away",
    "engine/workspace/confined_program.py _Copy.make": _HOOK_COPY,
    "engine/workspace/confined_program.py _copy_all": _HOOK_COPY,
    "engine/workspace/confined_program.py _copy_own": _HOOK_COPY,
    "engine/workspace/confined_program.py _git": _HOOK_COPY,
    "engine/workspace/confined_program.py _hook": _HOOK_COPY,
    "engine/workspace/confined_program.py _inside": _HOOK_COPY,
    "engine/workspace/confined_program.py _take_staged": _HOOK_COPY,
    "engine/workspace/confined_program.py _write": _HOOK_COPY,
    "engine/workspace/confined_program.py _write_plain": _HOOK_COPY,
    "engine/agents/tool_listing.py forget_listed": "a hint for the first prompt: deleted before each start of an agent",
    "engine/agents/tool_listing.py tell_listed": "a hint for the first prompt: without it, the prompt only comes later",
    "git/confinement.py _write": "wrappers, whole or not there: written again by the next who confines git",
    "git/worktrees/half_made.py _not_of": "for as long as git reads it: what a kill leaves is cleared with the locks",
    "git/effects/worktrees.py empty_trash": "worktrees that were removed: deleted by the next who looks",
    "git/locks.py clear_locks": "what the dead left: cleared by the next who looks",
    "git/locks.py clear_ref_locks": "what the dead left: cleared by the next who looks",
    "git/locks.py remove_stale": "what the dead left: cleared by the next who looks",
    "git/missing_objects.py drop_empty_objects": "under a name that follows from theirs: the next finds both",
    "git/process.py _memory.__enter__": "a file in memory",
    "git/process.py run_program": "every command of git has a test of its own, by a git that dies: test_git_effects",
    "git/snapshot.py _copy_of_index": "for as long as git reads it: what a kill leaves is cleared with the locks",
    "git/seeds.py _copy": "for as long as git reads the seeds",
    "git/seeds.py read_seeds": "for as long as git reads the seeds",
    "leaf/failpoints.py Doom.has_come": "the passes of points, counted for a test",
    "leaf/files/directories.py _open_up": "of what is being deleted",
    "leaf/files/directories.py remove_tree": "the call itself",
    "leaf/files/directories.py sync_directory": "the call itself",
    "leaf/process/fd_marker.py tether": "an empty file: what counts is who has it open",
    "store/files/catalog.py _connected": "an index of the logs: made again from them",
    "store/files/catalog.py _throw_away": "an index of the logs: made again from them",
    "store/files/disk.py make_directories": "empty folders: made again",
    "store/files/disk.py replace": "the call itself",
    "store/files/store.py FileStore.create": "only the time of a folder, for who watches it: the next run sets it",
    "store/files/inbox.py FileInbox._make_durable": "what others wrote: synced again by the next who reads",
    "store/files/create.py take_away": "of a run that was never made: taken away by the next who looks",
    "store/files/owner.py _take": "an empty file: who holds the lock is told by the kernel",
    "store/files/owner.py _write_record": "who holds the lock is told by the kernel; the file is for people",
    "store/files/report_files.py ReportFiles.make": "an empty file: made again",
    "store/files/report_files.py _blank": "a secret in what was not moved yet: made unreadable by the next who reads",
    "store/files/report_files.py _end_line": "of a torn end: ended by the next who reads",
    "store/files/repair.py end_line": "of a torn end: set aside by the next who writes",
}


def kinds(of: type[GitEffect] = GitEffect) -> Iterator[str]:
    """Of everything that can be done to a repository."""
    for one in of.__subclasses__():
        if "kind" in vars(one):
            yield one.kind
        yield from kinds(one)


def test_every_effect_has_its_two_points() -> None:
    found = set(kinds())
    assert len(found) > 12
    assert {name for name in POINTS if name.startswith("effect.")} == {
        f"effect.{kind}.{side}" for kind in (*found, "settle") for side in ("before", "after")
    }


def test_whatever_outlives_us_has_a_point_or_a_reason_for_none() -> None:
    """Function by function: what files it changes, and what it starts."""
    found = lasting_functions()
    bare = {one.name for one in found if not one.has_point}
    assert len(found) - len(bare) > 10
    assert bare - BETWEEN.keys() - WITHOUT.keys() == set(), "neither a point nor a reason"
    assert (BETWEEN.keys() | WITHOUT.keys()) - bare == set(), "a reason that nobody needs"
    assert BETWEEN.keys() & WITHOUT.keys() == set()


def test_whoever_passes_one_of_two_points_passes_the_other() -> None:
    assert half_passed() == []


_AS_IT_MAY_BE = """
import os, shutil, subprocess
from pathlib import Path
from holdfast.leaf.failpoints import around
_CRASH = around("some.change")
_ONLY_READ = os.O_RDONLY | os.O_CLOEXEC

def change(folder):
    CHANGE
"""
_CHANGES = {
    "renames": 'os.rename(f"{folder}/events.jsonl", f"{folder}/old")',
    "deletes": 'os.unlink(f"{folder}/events.jsonl")',
    "deletes a folder": "shutil.rmtree(folder)",
    "has it deleted": "subject.callback(shutil.rmtree, folder)",
    "copies": "shutil.copytree(folder, folder.parent)",
    "cuts off": 'os.truncate(f"{folder}/events.jsonl", 0)',
    "opens": 'open(f"{folder}/done", "w").close()',
    "opens with a name": 'open(f"{folder}/done", encoding="utf-8", mode="a").close()',
    "opens as it is told": "open(folder, folder.mode)",
    "opens by a number": "os.open(folder, os.O_WRONLY | os.O_CREAT)",
    "opens a path": 'Path(folder, "done").open("x")',
    "writes a path": 'Path(folder, "done").write_text("yes")',
    "replaces a path": 'Path(folder, "done").replace(folder)',
    "makes a folder": 'os.makedirs(f"{folder}/more")',
    "writes": 'os.write(folder, b"yes")',
    "starts": 'subprocess.run(["true"])',
}
_NO_CHANGES = (
    'open(f"{folder}/events.jsonl", "rb")',
    "open(folder)",
    "os.open(folder, _ONLY_READ)",
    'folder.replace("a", "b")',
    "os.path.join(folder)",
)


def seen(change: str) -> list[Lasting]:
    return list(lasting_in(read_source("store/some.py", _AS_IT_MAY_BE.replace("CHANGE", change))))


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_a_change_of_a_file_is_seen(change: str) -> None:
    assert seen(change) == [Lasting("store/some.py change", has_point=False)]
    assert seen(f"_CRASH.before(); {change}; _CRASH.after()") == [Lasting("store/some.py change", has_point=True)]


@pytest.mark.parametrize("look", _NO_CHANGES)
def test_who_only_looks_is_not_seen(look: str) -> None:
    assert seen(look) == []


def test_one_that_renames_a_log_deletes_a_run_and_leaves_a_mark_needs_two_points() -> None:
    changes = [_CHANGES[how] for how in ("renames", "deletes a folder", "opens")]
    bare, half = "; ".join(changes), "; ".join(("_CRASH.before()", *changes))
    assert seen(bare) == seen(half) == [Lasting("store/some.py change", has_point=False)]
    source = read_source("store/some.py", _AS_IT_MAY_BE.replace("CHANGE", half))
    assert list(half_passed_in(source)) == [("store/some.py change", "_CRASH")]


@pytest.mark.parametrize("family", sorted(set(BETWEEN.values())))
def test_what_has_its_callers_points_has_them(family: str) -> None:
    assert f"\n| `{family}` |" in RECOVERY.read_text(encoding="utf-8"), "the table, which is made from the code"


@pytest.mark.parametrize("family", ["journal.append", "inbox.append", "snapshot.save"])
def test_an_append_can_be_cut_off_before_in_the_middle_and_after(family: str) -> None:
    assert {f"{family}.{side}" for side in ("before", "torn", "after")} <= POINTS.keys()


def test_without_a_doom_the_journal_writes_by_the_very_disk_that_it_was_given() -> None:
    assert Appending("some.append").on(REAL) is REAL
    del POINTS["some.append.before"], POINTS["some.append.torn"], POINTS["some.append.after"]


@pytest.fixture
def program(home: str, tmp_path: Path) -> Program:
    os.makedirs(home)
    return Program(home, str(tmp_path))


def test_one_variable_alone_kills_nobody_and_says_nothing(program: Program, tmp_path: Path) -> None:
    assert program("--version", env={WHAT: "journal.append.before:1"}).err == ""
    assert program("--version", env={FILE: str(tmp_path / "passes")}).err == ""
    assert program("--version", env={WHAT: "journal.append.before:1", FILE: str(tmp_path / "none")}).err == ""


def test_who_is_doomed_says_so(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    said = program("--version", env={WHAT: "journal.append.before:2:group", FILE: str(passes)}).err
    assert said == "holdfast: HOLDFAST_CRASH is on: group will be killed at pass 2 of journal.append.before\n"


def test_a_doom_that_cannot_be_read_is_refused(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    for doom in ("journal.append.before", "journal.append.before:x", "a:1:nobody"):
        assert "unset it" in program("--version", code=2, env={WHAT: doom, FILE: str(passes)}).complaint


def test_a_real_program_is_really_killed(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    doom = {WHAT: "journal.append.before:1", FILE: str(passes)}
    with program.start("demo", "--json", env=doom) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert "journal.append.before" in passes.read_text()


def test_neither_agents_nor_validators_inherit_a_doom(theatres: Theatres) -> None:
    place: Place = theatres("solo").place()
    look = {"run": 'env > "$HOME/agent.env"'}
    place.scenario = place.scenario._replace(
        turns=[{"when": "the greeting", "steps": [look]}],
        settings=(f'validators.commands.look={{"command": ["sh", "-c", "env > {place.folder}/validator.env"]}}',),
    )
    place.write()
    assert place.begin("record").code == 0
    for who in ("agent", "validator"):
        seen = Path(place.folder, f"{who}.env").read_text(encoding="utf-8")
        assert f"HOLDFAST_RUN={place.run_id}" in seen
        assert "HOLDFAST_CRASH" not in seen
    place.remove()

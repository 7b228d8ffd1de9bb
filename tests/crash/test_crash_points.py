"""Crash points: everything that must survive has one, and nobody comes upon them by accident."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.git.effects import GitEffect
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE, POINTS
from holdfast.leaf.files.disk import REAL_DISK, AppendFailpoints
from tests.cli.program import Program
from tests.support.crash_suite.suite import FailpointSuites
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
    "agents/acp/driver.py connect_agent": "agent.spawn",
    "agents/playbook/actions.py _write_file": "playbook.deed",
    "agents/playbook/actions.py append": "playbook.deed",
    "agents/playbook/actions.py delete": "playbook.deed",
    "agents/acp/replace_file.py _fill": "file.replace",
    "agents/acp/replace_file.py _set_attributes": "file.replace",
    "agents/acp/replace_file.py _create_in_place": "file.replace",
    "agents/acp/replace_file.py _link_when_complete": "file.replace",
    "engine/commands/bundle/export_bundle.py _write": "bundle.write",
    "engine/commands/bundle/import_bundle.py _unpack_files": "import.files",
    "engine/commands/bundle/import_bundle.py _copy": "import.files",
    "engine/commands/cluster/submit.py _run_program": "cluster.submit",
    "engine/hooks/process.py _run_process": "hook.run",
    "engine/notify/channels.py _show": "notify.send",
    "engine/checks/validators.py _start": "validator.run",
    "git/effects/cluster.py TakeOverRefs._set_aside": "effect.cluster.take_over",
    "git/effects/worktrees.py MakeWorktree.sync": "effect.worktree.make",
    "git/worktree_admin.py _move_to_trash": "entry.drop",
    "git/worktrees/link.py _new_entry": "worktree.link",
    "git/worktrees/supplied.py _copy_file": "worktree.supply",
    "git/worktrees/supplied.py _make_link": "worktree.supply",
    "git/worktrees/link.py _set_aside": "worktree.link",
    "git/worktrees/link.py _write_file": "worktree.link",
    "git/missing_objects.py delete_dropped": "lost.mend",
    "git/missing_objects.py reset_branch": "lost.mend",
    "git/merge.py _delete_leftover_files": "effect.merge",
    "git/worktrees/worktree.py _delete_marker": "effect.worktree.make",
    "git/worktrees/worktree.py _write_marker": "effect.worktree.make",
    "git/worktrees/worktree.py _delete_creation_locks": "effect.worktree.make",
    "git/worktrees/worktree.py add_worktree": "effect.worktree.make",
    "git/worktrees/worktree.py delete_half_made": "effect.worktree.make",
    "store/files/inbox.py FileInbox._write": "inbox.append",  # by the disk that it was given
    "store/files/journal.py FileJournal._commit": "journal.append",  # by the disk that it was given
    "store/files/journal.py FileJournal._roll_back": "journal.append",
    "store/files/compaction.py _write": "log.compress",  # and log.expand, by the point that it is given
    "store/files/create.py _lock_inbox": "run.make",
    "store/files/create.py _make_log": "run.make",
    "store/files/repair.py _open_for_append": "log.repair",
    "store/files/repair.py _set_aside": "log.repair",
    "store/files/repair.py repair": "log.repair",
}
# or it needs none.
WITHOUT = {
    "engine/session/projections.py _delete_abandoned": "pages of what was rewound: each start deletes them again",
    "engine/session/artifacts.py delete_abandoned": "of what is rewound next: without that, written again from the log",
    "engine/commands/adopt/branches.py _read_tasks": "a scratch folder: made again",
    "engine/commands/cluster/session_program.py send_report": "a line to the worker; when that is dead, nobody waits",
    "app/web/acting/setup.py open_in_editor": "an editor of the user",
    "app/web/acting/talk.py _queue": "the inbox of a run: the message has its points",
    "engine/commands/bundle/export_bundle.py _scratch_folder": "a scratch folder beside the bundle: made again",
    "engine/commands/bundle/export_bundle.py _copy_log": "a copy in the scratch folder: made again",
    "engine/commands/last_seen.py _write": "where a person stopped reading; without it, text is repeated",
    "agents/playbook/mcp_client.py StdioMcpClient.start": "what an agent does, by a script",
    "engine/commands/programs/report_tools.py _write_all": "an answer to an agent: its report has points",
    "agents/builtin/session_file.py SessionFile.create": "a session that nobody was told of yet",
    "agents/builtin/tools.py _run_search": "it only reads",
    "leaf/files/contained.py open_regular_file": "it opens what is there: nobody who calls it asks for a new file",
    "agents/acp/file_access.py write_text": "a file of the work, written in its place where it cannot be replaced",
    "leaf/files/contained.py open_parent_folder": "empty folders: made again",
    "agents/playbook/actions.py _run_in_background": "what an agent does, by a script",
    "agents/playbook/actions.py _run_to_end": "what an agent does, by a script",
    "agents/playbook/program.py serve": "the same agent, once more",
    "agents/playbook/sessions.py StateFolder.is_first_time": "a script's mark of what is done once: made first",
    "agents/jsonrpc/stdio.py StdioConnection._write": "a pipe",
    "agents/runtimes/container_proxy.py _write_all": "a pipe",
    "agents/runtimes/mounts.py _commit_paths": "an empty file, which says nothing: made again",
    "agents/runtimes/mounts.py _create_missing": "empty folders: made again",
    "agents/readiness.py node_version": "it is asked for its version",
    "agents/runtimes/sandbox.py check_bwrap": "it is asked whether it works, and does nothing",
    "agents/runtimes/sandbox.py spawn_command": "a file in memory",
    "agents/runtimes/tmux.py missing_requirement": "it is asked for its version",
    "agents/tmux/control.py watch_output": "it only listens",
    "agents/tmux/acp_server.py TmuxAcpServer._open": "a pipe",
    "agents/tmux/files.py TmuxFiles.__init__": "empty folders: made again",
    "agents/tmux/files.py TmuxFiles.open_pipe": "a pipe: one that a kill left goes when the next is made",
    "agents/tmux/server.py _make_private_folder": "empty folders: made again",
    "agents/tmux/exec_agent.py main": "it becomes the agent for whom its window was made",
    "agents/process/tree.py _append": "an agent's complaints, for people: the end may be lost",
    "agents/process/tree.py _open_private": "an agent's complaints, for people: the end may be lost",
    "agents/process/tree.py _start_process": "the call itself: whoever has one `grown` has the points",
    "app/cli/attend/attach.py _exec_tmux": "a person looks at a run",
    "app/tui/attach.py attach_here": "a person looks at a run",
    "app/cli/inspect/export.py _replace_file": "a page, whole or not there: exported again",
    "app/cli/main.py main": "/dev/null",
    "app/cli/attend/serve.py _open": "a browser of the user",
    "app/web/server.py run_server": "the file that signs a browser in: written again by the next server",
    "app/web/server.py _write_open_file": "the file that signs a browser in: written again by the next server",
    "app/web/server.py sign_in_file": "made anew by each --open, from a file that is made anew by each server",
    "app/html/spool.py Spool._flush": "for as long as a page is written",
    "app/html/page.py write_page": "for as long as a page is written",
    "app/cli/live/async_writer.py AsyncWriter._write_all": "a terminal",
    "engine/config/files.py record_trust": "the user's trust in a file: asked for again",
    "engine/config/files.py create_config": "the user's own config: whole or not there",
    "engine/commands/demo/log.py _writer_process": "a show, in a home of its own",
    "engine/commands/demo/log.py _write": "a show, in a home of its own",
    "engine/commands/demo/log.py tear_log_end": "a show, in a home of its own",
    "engine/session/artifacts.py _delete_other_formats": "looked for at every writing: the next forgets them",
    "engine/agents/matrix.py _set_aside": "under a name that follows from its content: done again",
    "engine/agents/matrix.py save_measurement": "what was measured of agents: measured again when it is lost",
    "engine/commands/probe.py _Probe.__init__": "for as long as an agent is measured",
    "engine/commands/probe.py probe": "for as long as an agent is measured",
    "engine/commands/demo/demo.py _write": "a show, in a home of its own",
    "engine/commands/demo/demo.py run_git": "a show, in a home of its own",
    "engine/commands/demo/demo.py create_demo_folder": "a show, in a home of its own",
    "engine/commands/demo/demo.py start_runner": "a show, in a home of its own",
    "engine/commands/selftest/calibrate.py _start_cost": "of a selftest: a process that ends by itself",
    "engine/commands/selftest/calibrate.py _sync_cost": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/child.py _append": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/child.py child_process": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/disk.py _write_file": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/disk.py _write_and_sync": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/disk.py check_rename": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/disk.py check_sync": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/file_system.py check_clock": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/kernel.py _append": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/kernel.py check_lock": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/folder.py _create_folders": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/folder.py _remove": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/folder.py temporary_folder": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/runs.py _commit_file": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/runs.py _run_session": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/selftest/runs.py _check_git": "of a selftest, in its own folder: the next one deletes it",
    "engine/commands/detach.py _stdin_for": "a file in memory",
    "leaf/files/exclusive.py lock_file": "an empty file: who holds the lock is told by the kernel",
    "leaf/files/exclusive.py hold_file_lock": "the lock is the kernel's, the pid in the file is for people",
    "app/web/live/pty.py Pty.__init__": "a user's own shell: it ends with its terminal, which the server has",
    "app/web/live/pty.py Pty._flush": "what a user types into a shell",
    "app/web/reading/work.py export_run": "a temporary file for one answer, deleted after it",
    "engine/commands/user_unit.py is_systemd_running": "systemctl is asked whether it runs, and does nothing",
    "engine/workspace/confined_program.py _Copy.make": _HOOK_COPY,
    "engine/workspace/confined_program.py _copy_all": _HOOK_COPY,
    "engine/workspace/confined_program.py _copy_own": _HOOK_COPY,
    "engine/workspace/confined_program.py _git": _HOOK_COPY,
    "engine/workspace/confined_program.py _hook": _HOOK_COPY,
    "engine/workspace/confined_program.py _inside": _HOOK_COPY,
    "engine/workspace/confined_program.py _take_staged": _HOOK_COPY,
    "engine/workspace/confined_program.py _write": _HOOK_COPY,
    "engine/workspace/confined_program.py _write_plain": _HOOK_COPY,
    "engine/live_socket.py ListeningSocket.close": "a socket: the next owner of the run takes its place",
    "engine/live_socket.py _delete_stale": "sockets without a runner: the next who looks deletes them",
    "engine/live_socket.py _places": "an empty folder: made again",
    "engine/live_socket.py listen": "a socket: the next owner of the run takes its place",
    "engine/agents/listing_file.py forget_listed": "a hint for the first prompt: deleted before each start of an agent",
    "engine/agents/listing_file.py announce_tools": "a hint for the first prompt: without it, the prompt comes later",
    "git/confinement.py _write": "wrappers, whole or not there: written again by the next who confines git",
    "git/worktrees/half_made.py _files_not_in": "only while git reads it: what a kill leaves is cleared with the locks",
    "git/effects/worktrees.py empty_trash": "worktrees that were removed: deleted by the next who looks",
    "git/locks.py clear_locks": "what the dead left: cleared by the next who looks",
    "git/locks.py clear_ref_locks": "what the dead left: cleared by the next who looks",
    "git/locks.py remove_stale": "what the dead left: cleared by the next who looks",
    "git/missing_objects.py drop_empty_objects": "under a name that follows from theirs: the next finds both",
    "git/process.py _memory_file.__enter__": "a file in memory",
    "git/process.py run_program": "every command of git has a test of its own, by a git that dies: test_git_effects",
    "git/snapshot.py _copy_index": "only while git reads it: what a kill leaves is cleared with the locks",
    "git/seeds.py _copy": "for as long as git reads the seeds",
    "git/seeds.py seeds_from_commit": "for as long as git reads the seeds",
    "app/cli/chat/text_editor.py _edit": "a copy of a plan, for as long as its user edits it",
    "git/seeds.py read_seeds": "for as long as git reads the seeds",
    "git/worktrees/uncommitted.py read_uncommitted": "a copy of the index, for as long as git reads it",
    "engine/notify/outbox.py Outbox.load": "a damaged outbox is set aside: set aside again by the next who loads it",
    "engine/notify/outbox.py Outbox.owned": "an empty file: who holds the lock is told by the kernel",
    "engine/telemetry/live.py _write_progress": "what was exported: without it, the same spans are sent again",
    "leaf/failpoints.py ArmedFailpoint.is_due": "the passes of points, counted for a test",
    "leaf/files/directories.py _make_writable": "of what is being deleted",
    "leaf/files/directories.py remove_tree": "the call itself",
    "leaf/files/directories.py sync_directory": "the call itself",
    "leaf/process/fd_marker.py open_marker_fd": "an empty file: what counts is who has it open",
    "engine/commands/adopt/liveness.py _has_tmux_session": "it only asks",
    "git/adoption.py read_checkout": "a copy of the index, for as long as git reads it",
    "store/files/staging.py Stage.delete": "a stage that is over: deleted by the next adopt",
    "store/files/staging.py abandoned_stages": "stages whose deletion was begun: deleted by the next adopt",
    "store/files/staging.py lock_stage": "an empty file: who holds the lock is told by the kernel",
    "store/files/catalog.py _connect": "an index of the logs: made again from them",
    "store/files/catalog.py _delete_catalog": "an index of the logs: made again from them",
    "leaf/files/disk.py make_directories": "empty folders: made again",
    "leaf/files/disk.py replace": "the call itself",
    "store/files/store.py FileStore.create": "only the time of a folder, for who watches it: the next run sets it",
    "store/files/inbox.py FileInbox._make_durable": "what others wrote: synced again by the next who reads",
    "store/files/create.py delete_incomplete": "of a run that was never made: taken away by the next who looks",
    "store/files/leftovers.py leftovers": "runs that were reset: deleted by the next doctor",
    "store/files/run_watch.py FolderWatch.__aenter__": "empty folders: created again",
    "store/files/owner.py _try_acquire": "an empty file: who holds the lock is told by the kernel",
    "store/files/owner.py _write_record": "who holds the lock is told by the kernel; the file is for people",
    "store/files/report_files.py ReportFiles.create": "an empty file: made again",
    "store/files/report_files.py _redact": "a secret in what was not moved yet: made unreadable by the next who reads",
    "store/files/report_files.py _terminate_line": "of a torn end: ended by the next who reads",
    "store/files/repair.py terminate_line": "of a torn end: set aside by the next who writes",
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
from holdfast.leaf.failpoints import failpoint_pair
_CRASH = failpoint_pair("some.change")
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


def test_unarmed_journal_uses_the_disk_it_was_given() -> None:
    assert AppendFailpoints("some.append").wrap(REAL_DISK) is REAL_DISK
    del POINTS["some.append.before"], POINTS["some.append.torn"], POINTS["some.append.after"]


@pytest.fixture
def program(home: str, tmp_path: Path) -> Program:
    os.makedirs(home)
    return Program(home, str(tmp_path))


def test_one_variable_alone_kills_nobody_and_says_nothing(program: Program, tmp_path: Path) -> None:
    assert program("--version", env={FAILPOINT_VARIABLE: "journal.append.before:1"}).err == ""
    assert program("--version", env={FAILPOINT_FILE_VARIABLE: str(tmp_path / "passes")}).err == ""
    assert (
        program(
            "--version",
            env={FAILPOINT_VARIABLE: "journal.append.before:1", FAILPOINT_FILE_VARIABLE: str(tmp_path / "none")},
        ).err
        == ""
    )


def test_armed_failpoint_is_announced(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    said = program(
        "--version", env={FAILPOINT_VARIABLE: "journal.append.before:2:group", FAILPOINT_FILE_VARIABLE: str(passes)}
    ).err
    assert said == "holdfast: HOLDFAST_CRASH is on: group will be killed at pass 2 of journal.append.before\n"


def test_malformed_failpoint_is_refused(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    for failpoint in ("journal.append.before", "journal.append.before:x", "a:1:nobody"):
        assert (
            "unset it"
            in program(
                "--version", code=2, env={FAILPOINT_VARIABLE: failpoint, FAILPOINT_FILE_VARIABLE: str(passes)}
            ).complaint
        )


def test_a_real_program_is_really_killed(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    armed = {FAILPOINT_VARIABLE: "journal.append.before:1", FAILPOINT_FILE_VARIABLE: str(passes)}
    with program.start("demo", "--json", env=armed) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert "journal.append.before" in passes.read_text()


def test_agents_and_validators_do_not_inherit_the_failpoint(suites: FailpointSuites) -> None:
    place: Place = suites("solo").place()
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

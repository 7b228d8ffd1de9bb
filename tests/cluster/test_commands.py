"""What a person does with cluster runs from another machine, by the commands that work on local runs."""

import asyncio
import getpass
import json
import os
from pathlib import Path

from holdfast.core.events.conversation import PermissionAnswered, PermissionRequested
from holdfast.core.events.session import RunResumed, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted
from tests.cli.test_run_permissions import ASK
from tests.cluster.test_placement import HELLO, slow
from tests.support.cluster import Cluster

BYE = {"when": "and say goodbye", "steps": [{"write": {"path": "bye.txt", "text": "bye\n"}}, {"say": "goodbye"}]}


async def test_stopped_run_stays_stopped_until_someone_resumes_it(cluster: Cluster) -> None:
    """It is an end: no other worker continues, and a message waits."""
    worker = cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    await cluster.until_hung()
    assert "stopped" in cluster.holdfast("stop", run_id)
    await cluster.until(lambda: f"{run_id}: " in worker.read_log())
    assert f"{run_id}: ended: stopped" in worker.read_log()
    assert "Traceback" not in worker.read_log()
    cluster.holdfast("send", run_id, "are you there?")
    assert await cluster.status(run_id) == "stopped"
    cluster.holdfast("resume", run_id, "--json")
    await cluster.until_status(run_id, "done")
    assert [start.command for start in await cluster.events(run_id, SessionStart)] == ["plan", "run", "resume"]
    assert len(await cluster.events(run_id, TaskCompleted)) == 1


async def test_run_that_waits_for_a_worker_can_be_stopped(cluster: Cluster) -> None:
    """Before it had one, and after its worker died. The worker that gets it then leaves it stopped."""
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    assert "there is none" in cluster.holdfast("show", run_id)
    cluster.holdfast("stop", run_id)
    cluster.holdfast("resume", run_id, "--json")
    cluster.holdfast("stop", run_id)
    first = cluster.worker("one")
    await cluster.until(lambda: f"{run_id}: ended: stopped" in first.read_log())
    cluster.holdfast("resume", run_id, "--json")
    await cluster.until_hung()
    first.kill()
    cluster.holdfast("stop", run_id)
    second = cluster.worker("two")
    await cluster.until(lambda: f"{run_id}: ended: stopped" in second.read_log())
    assert await cluster.status(run_id) == "stopped"
    cluster.holdfast("resume", run_id, "--json")
    await cluster.until_status(run_id, "done")
    assert "hello.txt" in await cluster.files_of(run_id)
    assert len(await cluster.events(run_id, TaskCompleted)) == 1


async def test_log_has_the_name_of_who_answered_a_request(cluster: Cluster) -> None:
    cluster.worker("one")
    run_id = cluster.submit("tidy up", cluster.book({"when": "You are the worker", "steps": [ASK]}))
    while not await cluster.events(run_id, PermissionRequested):
        await cluster.pause()
    assert "Delete the notes" in cluster.holdfast("show", run_id)
    cluster.holdfast("approve", run_id, environment={"LOGNAME": "grace"})
    await cluster.until_status(run_id, "done")
    assert "answer.txt" in await cluster.files_of(run_id)
    assert [event.by for event in await cluster.events(run_id, PermissionAnswered)] == ["grace"]
    assert getpass.getuser() != "grace"


async def test_message_that_wakes_nobody_is_stored_once(cluster: Cluster) -> None:
    """The sender knows no Temporal server. `resume` of one who does delivers the message."""
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(BYE, HELLO))
    await cluster.until_status(run_id, "done")
    cluster.holdfast("send", run_id, "and say goodbye", code=1, environment={"HOLDFAST_ENGINE": ""})
    messages = [entry.message async for entry in cluster.home.store.inbox(run_id).read()]
    assert [message.kind for message in messages if message is not None] == ["user"]
    cluster.holdfast("resume", run_id, "--json")
    while "bye.txt" not in await cluster.files_of(run_id):
        await cluster.pause()


async def test_message_that_comes_as_a_session_ends_continues_the_run(cluster: Cluster) -> None:
    """A hook sends it when nothing reads the inbox any more, and the run still has its owner."""
    program, sent = Path(cluster.folder, "send.sh"), Path(cluster.folder, "sent")
    command = cluster.as_command("send", "$run", "and say goodbye")
    read_run = r"""run=$(sed 's/.*"run": *"\([^"]*\)".*/\1/')"""
    script = f"#!/bin/sh\n{read_run}\n[ -e {sent} ] || {{ touch {sent}; {command}; }}\n"
    program.write_text(script, encoding="utf-8")
    os.chmod(program, 0o755)
    cluster.configure(f"[hooks]\nsession_end = [['{program}']]\n")
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(BYE, HELLO))
    while "bye.txt" not in await cluster.files_of(run_id):
        await cluster.pause()
    await cluster.until_status(run_id, "done")
    assert [end.reason for end in await cluster.events(run_id, SessionEnd)] == ["planned", "all_done", "all_done"]


async def test_choice_of_a_resume_is_made_once_although_its_worker_is_killed(cluster: Cluster) -> None:
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    owner = await cluster.owner_of(run_id)
    await cluster.until_hung()
    cluster.holdfast("stop", run_id)
    cluster.forget_hangs()
    cluster.holdfast("resume", run_id, "--instructions", "be brief", "--json")
    await cluster.owner_of(run_id)
    await cluster.until_hung()
    owner.kill()
    cluster.worker("two")
    await cluster.until_status(run_id, "done")
    instructions = [event.instructions for event in await cluster.events(run_id, RunResumed)]
    assert instructions == ["be brief", None]


async def test_work_is_rewound_forked_exported_verified_and_archived(cluster: Cluster) -> None:
    run_id = cluster.submit("write hello.txt", cluster.book(BYE, HELLO))
    waiting = asyncio.create_task(asyncio.to_thread(cluster.holdfast, "wait", run_id))
    watching = asyncio.create_task(asyncio.to_thread(cluster.holdfast, "attach", run_id))
    cluster.worker("one")
    assert (await waiting).strip() == "done", "it waits for a worker, too"
    await watching
    assert f"holdfast push {run_id}" in cluster.holdfast("show", run_id)
    assert cluster.project.remote in cluster.holdfast("show", run_id)
    assert ": lines 1 to " in cluster.holdfast("verify", run_id)
    assert "delivered" in cluster.holdfast("send", run_id, "and say goodbye")
    while "bye.txt" not in await cluster.files_of(run_id):
        await cluster.pause()
    await cluster.until_status(run_id, "done")
    cluster.holdfast("rewind", run_id, "--to", "turn-1", "-y")
    assert "bye.txt" not in await cluster.files_of(run_id)
    cluster.holdfast("rewind", run_id, "--undo", "-y")
    assert "bye.txt" in await cluster.files_of(run_id)
    forked = str(json.loads(cluster.holdfast("fork", run_id, "--at", "turn-1", "--json"))["run"])
    cluster.holdfast("resume", forked, "--json")
    await cluster.until_status(forked, "done")
    assert "hello.txt" in await cluster.files_of(forked)
    page = Path(cluster.folder, "page.html")
    cluster.holdfast("export", run_id, "-o", str(page))
    assert page.stat().st_size
    cluster.holdfast("archive", run_id)

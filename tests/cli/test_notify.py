"""Notifications of real runs: to a real receiver, from the runner, and from `watch` for what a killed runner left."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.cli.test_run_watched import cut_off, watching
from tests.support.cli_stage import Stage, heard, worker
from tests.support.http_receiver import Receiver, receiving
from tests.support.variants import every
from tests.support.wait import until

WROTE = {"write": {"path": "a.txt", "text": "a\n"}}


def config(stage: Stage, text: str) -> dict[str, str]:
    path = os.path.join(stage.folder, "config.toml")
    Path(path).write_text(text, encoding="utf-8")
    return {"HOLDFAST_CONFIG": path}


def kinds(receiver: Receiver) -> list[str]:
    return [json.loads(request.body)["kind"] for request in receiver.requests]


def test_a_run_notifies_that_it_is_done(stage: Stage) -> None:
    with receiving() as receiver:
        env = config(stage, f'[notify.phone]\nwebhook = "{receiver.url}"\n')
        run = stage.run("--agent", stage.book(worker(WROTE)), "write a", env=env)
        (request,) = receiver.requests
        body = json.loads(request.body)
        assert (body["kind"], body["run"]) == ("done", run)
        assert stage.holdfast("notify", env=env).out == "everything is delivered\n"


@pytest.mark.parametrize(
    ("point", "sent"),
    every(
        3,
        [
            ("notify.send.before:1", 0),
            ("notify.send.after:1", 1),
            ("notify.save.before:2", 0),
            ("notify.save.torn:2", 0),
            ("notify.save.after:2", 0),
            ("notify.save.before:3", 1),
            ("notify.save.torn:3", 1),
        ],
    ),
)
def test_what_a_killed_runner_left_is_sent_with_the_same_id(stage: Stage, point: str, sent: int) -> None:
    """`notify.save` is passed first when the outbox begins, then with the notification, then after it was sent."""
    with receiving() as receiver:
        env = config(stage, f'[notify.phone]\nwebhook = "{receiver.url}"\n')
        passes = Path(stage.folder, "passes")
        passes.touch()
        kill = {"HOLDFAST_CRASH": point, "HOLDFAST_CRASH_FILE": str(passes)}
        agent = stage.book(worker(WROTE))
        stage.holdfast("run", "write a", "--agent", agent, "--json", code=-9, env={**env, **kill})
        assert kinds(receiver) == ["done"] * sent
        with stage.start("watch", env=env) as process:
            stage_until(receiver, sent + 1)
            asyncio.run(until(lambda: stage.holdfast("notify", env=env).out == "everything is delivered\n"))
            process.terminate()
            process.communicate()
        assert kinds(receiver) == ["done"] * (sent + 1)
        assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


def stage_until(receiver: Receiver, count: int) -> None:
    asyncio.run(until(lambda: len(receiver.requests) >= count))


def test_a_run_that_watch_resumes_notifies_so(stage: Stage) -> None:
    with receiving() as receiver:
        notify = ("--set", f'notify.phone={{"webhook":"{receiver.url}"}}')
        run = cut_off(stage, *notify, once=True)
        with watching(stage) as process:
            heard(process, lambda told: told["told"].startswith("resumed"))
            assert stage.holdfast("wait", run).out == "done\n"
            stage_until(receiver, 2)
        assert kinds(receiver) == ["resumed", "done"]


def test_a_cloned_repository_cannot_set_where_notifications_go(stage: Stage) -> None:
    with receiving() as receiver:
        file = Path(stage.project.path, ".holdfast.toml")
        file.write_text(f'[notify.theirs]\nwebhook = "{receiver.url}"\n', encoding="utf-8")
        ended = stage.holdfast("run", "write a", "--agent", stage.book(worker(WROTE)))
        assert "ignored until you trust this file: notify" in ended.err
        assert receiver.requests == []


def test_test_says_what_arrived_and_what_did_not(stage: Stage) -> None:
    with receiving() as receiver:
        receiver.answers = [404]
        targets = f'[notify.phone]\nwebhook = "{receiver.url}"\n[notify.mail]\ncommand = "cat"\n'
        env = config(stage, targets)
        tried = stage.holdfast("notify", "test", code=1, env=env)
        assert tried.out == "mail: delivered\n"
        assert "phone: not delivered: it answered 404" in tried.err
        assert "phone: delivered" in stage.holdfast("notify", "test", "phone", env=env).out
        assert kinds(receiver) == ["test", "test"]
        assert "there is no target 'fax'" in stage.holdfast("notify", "test", "fax", code=2, env=env).err


def test_without_targets_the_config_to_write_is_shown(stage: Stage) -> None:
    assert "[notify.desk] desktop = true" in stage.holdfast("notify", "test", code=4).err


def test_a_target_that_names_two_ways_is_refused(stage: Stage) -> None:
    env = config(stage, '[notify.both]\ndesktop = true\ncommand = "cat"\n')
    assert (
        "set one of `desktop = true`, `webhook` and `command`" in stage.holdfast("notify", "test", code=2, env=env).err
    )

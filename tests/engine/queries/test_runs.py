"""The list of runs: never older than the logs, and no log is opened that has not changed."""

import asyncio
import os
import shutil

import pytest

from holdfast.engine.home import Home
from holdfast.engine.queries.runs import ListedRun, list_runs, status_of
from holdfast.store.files.layout import run_folder
from tests.cli.runs import DONE, ELEVEN, TEN, log_of, make_run, resume_run, said, tasks, unnoticed

RUN = "auth-abc234"


def goal(home: str) -> str | None:
    (run,) = asyncio.run(list_runs(Home(home)))
    return run.summary.goal


def _runs_of(home: str, repo: str) -> list[ListedRun]:
    return asyncio.run(list_runs(Home(home), repo))


def test_a_row_is_made_of_the_log(home: str) -> None:
    make_run(home, RUN, DONE, goal="the goal")
    (run,) = asyncio.run(list_runs(Home(home)))
    assert (run.id, run.status, run.summary.goal, run.summary.updated) == (RUN, "done", "the goal", TEN)


def test_a_row_is_kept_while_inode_size_and_time_of_the_log_stay(home: str) -> None:
    make_run(home, RUN, goal="abc")
    assert goal(home) == "abc"
    log = log_of(home, RUN)
    with unnoticed(log), log.open("r+b") as file:
        content = file.read().replace(b'"goal":"abc"', b'"goal":"xyz"')
        file.seek(0)
        file.write(content)
    os.unlink(log.with_name("snapshot.json"))
    assert goal(home) == "abc", "nobody could know"
    os.utime(log)
    assert goal(home) == "xyz"


def test_a_log_that_shrank_is_read_again(home: str) -> None:
    make_run(home, RUN, said("one"), DONE)
    assert asyncio.run(list_runs(Home(home)))[0].status == "done"
    log = log_of(home, RUN)
    with unnoticed(log), log.open("r+b"):
        pass  # the same: nothing to see
    content = log.read_bytes()
    os.truncate(log, content[:-1].rindex(b"\n") + 1)
    assert asyncio.run(list_runs(Home(home)))[0].status == "interrupted"


def test_another_log_of_the_same_size_and_time_is_read_again(home: str) -> None:
    make_run(home, RUN, goal="abc")
    assert goal(home) == "abc"
    log = log_of(home, RUN)
    status = log.stat()
    other = log.with_name("other")
    other.write_bytes(log.read_bytes().replace(b'"goal":"abc"', b'"goal":"xyz"'))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.unlink(log.with_name("snapshot.json"))
    os.replace(other, log)
    assert goal(home) == "xyz"


def test_the_one_that_moved_last_comes_first_and_equals_are_in_order(home: str) -> None:
    for name in ("a-abc234", "c-abc234", "b-abc234"):
        make_run(home, name)
    resume_run(home, "b-abc234", at=ELEVEN)
    assert [run.id for run in asyncio.run(list_runs(Home(home)))] == ["b-abc234", "c-abc234", "a-abc234"]


def test_a_removed_run_is_gone_and_a_new_one_of_its_name_is_new(home: str) -> None:
    make_run(home, RUN, goal="old")
    assert goal(home) == "old"
    shutil.rmtree(log_of(home, RUN).parent)
    assert asyncio.run(list_runs(Home(home))) == []
    make_run(home, RUN, goal="new")
    assert goal(home) == "new"


def test_the_runs_of_one_repository_are_those_of_the_whole_list(home: str) -> None:
    def here() -> list[ListedRun]:
        found = _runs_of(home, "/src/shop")
        assert found == [run for run in asyncio.run(list_runs(Home(home))) if run.summary.repo == "/src/shop"]
        return found

    make_run(home, "shop-abc234", repo="/src/shop")
    make_run(home, "shop-def234", DONE, repo="/src/shop", at=ELEVEN)
    make_run(home, "other-abc234", repo="/src/other")
    assert [run.id for run in _runs_of(home, "/src/shop")] == ["shop-def234", "shop-abc234"]
    resume_run(home, "shop-abc234", *tasks(2), DONE, at="2026-02-14T12:00:00.000Z")
    resume_run(home, "other-abc234", DONE)
    assert [(run.id, run.summary.tasks_done) for run in here()] == [("shop-abc234", 2), ("shop-def234", 0)]
    shutil.rmtree(run_folder(home, "shop-abc234"))
    make_run(home, "shop-ghj234", repo="/src/shop")
    assert [run.id for run in here()] == ["shop-def234", "shop-ghj234"]
    assert _runs_of(home, "/src/none") == []


def test_an_empty_home_has_no_runs(home: str) -> None:
    assert asyncio.run(list_runs(Home(home))) == []


@pytest.mark.parametrize(
    ("condition", "owned", "status"),
    [
        ("open", True, "running"),
        ("open", False, "interrupted"),
        ("done", True, "done"),
        ("stopped", False, "stopped"),
        ("empty", True, "empty"),
    ],
)
def test_a_run_stands_as_its_log_says_and_while_that_is_open_as_its_lock_says(
    condition: str, owned: bool, status: str
) -> None:
    assert status_of(condition, lambda: owned) == status

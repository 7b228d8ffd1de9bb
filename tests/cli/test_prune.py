"""`holdfast prune`: an archived run shrinks step by step, and every step keeps what proves the rest."""

import asyncio
import gzip
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.events.session import RunArchived
from holdfast.core.log import chain
from holdfast.leaf.clock import now
from holdfast.store.files.frames import FRAME_BYTES, compress
from holdfast.store.files.layout import LOG, run_folder
from tests.cli.program import Program, failpoint_environment
from tests.cli.runs import DONE, make_run, said, tasks
from tests.support.cli_stage import HELLO, Stage
from tests.support.variants import every
from tests.support.wait import until

OLD = "2026-02-14T10:00:00.000Z"


@pytest.fixture
def archived(stage: Stage) -> str:
    run = stage.run("say hello kelp", "--agent", stage.book(HELLO))
    stage.holdfast("merge", run)
    stage.holdfast("archive", run)
    return run


@pytest.fixture
def small(stage: Stage) -> str:
    """An archived run without a repository, which takes no time to make."""
    events = (*tasks(2), said("kelp"), said("fine words"), RunArchived(salvaged=[]), DONE)
    return make_run(stage.home, "small-abc234", *events, goal="say hello kelp")


def plain(home: str, run: str) -> Path:
    return Path(run_folder(home, run), LOG)


def compressed(home: str, run: str) -> Path:
    return Path(run_folder(home, run), f"{LOG}.gz")


def views(program: Program, run: str) -> list[Any]:
    """What the readers of a log print of it."""
    shown = program("show", run, "--json").object
    return [
        program("logs", run, "--json").out,
        program("logs", run, "--json", "-n", "3").out,
        shown["state"],
        program("verify", run, "--json").object,
        program("show", run, "--points", "--json").out,
        program("export", run, "-o", "-").out.replace(LOG, ""),
        program("export", run, "--as", "resume-protocol", "-o", "-").out,
        program("ls", "--search", "kelp", "--json").out,
        program("analyze", run, "--json").object["decision"],
    ]


def test_every_reader_reads_a_compressed_log_like_a_plain_one(stage: Stage, archived: str) -> None:
    before, content = views(stage.holdfast, archived), plain(stage.home, archived).read_bytes()
    stage.holdfast("prune", archived)
    assert not plain(stage.home, archived).exists()
    assert gzip.decompress(compressed(stage.home, archived).read_bytes()) == content
    assert compressed(stage.home, archived).stat().st_size < len(content) / 2
    assert views(stage.holdfast, archived) == before
    path = str(compressed(stage.home, archived))
    assert stage.holdfast("verify", path, "--json").object["whole"]
    assert "nothing is due" in stage.holdfast("prune", archived, code=4).complaint


def test_a_log_longer_than_a_frame_is_read_from_any_position(holdfast: Program) -> None:
    texts = [f"{number} {'word ' * (number % 97)}" for number in range(3000)]
    events = [said(text) for text in (*texts, "x" * (3 * FRAME_BYTES))]
    run = make_run(holdfast.home, "long-abc234", *events, RunArchived(salvaged=[]), DONE)
    before = [holdfast("logs", run, "--json", *more).out for more in ((), ("-n", "1"), ("-n", "700"))]
    assert plain(holdfast.home, run).stat().st_size > 5 * FRAME_BYTES
    holdfast("prune", run)
    assert [holdfast("logs", run, "--json", *more).out for more in ((), ("-n", "1"), ("-n", "700"))] == before
    assert holdfast("verify", run).out.startswith("intact")


def test_a_run_that_is_not_archived_keeps_its_plain_log(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    assert f"holdfast archive {run}" in stage.holdfast("prune", run, code=5).complaint
    assert plain(stage.home, run).exists()


def test_writing_to_a_compressed_run_makes_its_log_plain_again(stage: Stage, archived: str) -> None:
    stage.holdfast("prune", archived)
    before = gzip.decompress(compressed(stage.home, archived).read_bytes())
    stage.holdfast("prune", archived, "--to", "transcripts", "-y")
    after = gzip.decompress(compressed(stage.home, archived).read_bytes())
    assert len(after) > len(before)
    assert not plain(stage.home, archived).exists()


def test_withheld_messages_leave_their_count_and_the_proof(stage: Stage, archived: str) -> None:
    state = stage.holdfast("show", archived, "--json").object["state"]
    assert "kelp" in stage.holdfast("ls", "--search", "kelp", "--json").out
    stage.holdfast("prune", archived, "--to", "transcripts", "-y")
    lines = [json.loads(line) for line in stage.holdfast("logs", archived, "--json").lines]
    kinds = [line["type"] for line in lines]
    withheld = kinds.count("log.withheld")
    assert withheld
    assert "message.recorded" not in kinds
    shown = stage.holdfast("verify", archived).out
    assert shown.startswith("intact")
    assert f"whole, {withheld} events withheld by rule transcripts on {now()[:10]}" in shown
    assert "lines 1 to" in shown  # the anchors still prove the log
    after = stage.holdfast("show", archived, "--json").object["state"]
    for name in ("tasks", "branches", "conversations", "budget", "published", "checkpoints"):
        assert after[name] == state[name]
    assert f"{withheld} events by rule transcripts" in stage.holdfast("show", archived).out
    assert archived not in [hit.get("run") for hit in stage.holdfast("ls", "--search", "fine", "--json").objects]
    assert "nothing is due" in stage.holdfast("prune", archived, "--to", "transcripts", "-y", code=4).complaint


def _kept(lines: list[bytes]) -> int:
    return next(n for n, line in enumerate(lines) if n and b"log.withheld" not in line and b'"task.started"' in line)


def _edit_kept(lines: list[bytes]) -> None:
    number = _kept(lines)
    lines[number] = lines[number].replace(b'"task', b'"tusk', 1)


def _rechain_to_next_withheld(lines: list[bytes]) -> None:
    """Change an early line and mend the chain up to the withheld line, which hides the seam."""
    first = next(n for n, line in enumerate(lines) if b'"log.withheld"' in line)
    link = chain.GENESIS
    for number in range(first):
        bare, _ = chain.unseal(lines[number])
        changed = bare.replace(b"kelp", b"help") if number < 3 else bare
        end = b" \n" if lines[number].endswith(b" \n") else b"\n"
        lines[number], link = chain.seal(link, changed, end)


def _edit_withheld(lines: list[bytes]) -> None:
    number = next(n for n, line in enumerate(lines) if b'"log.withheld"' in line)
    lines[number] = lines[number].replace(b'"seq":', b'"seq": ', 1).replace(b"  ", b" ", 1)


def _drop_withheld(lines: list[bytes]) -> None:
    del lines[next(n for n, line in enumerate(lines) if b'"log.withheld"' in line)]


def _withhold_one_more(lines: list[bytes]) -> None:
    number = _kept(lines)
    bare, _ = chain.unseal(lines[number])
    tail = lines[number][lines[number].rindex(b',"chain"') :]
    head = bare[: bare.index(b'"type"')] + b'"type":"log.withheld","data":{"rule":"transcripts","event":"x"}'
    lines[number] = head + b" " * (len(lines[number]) - len(head) - len(tail)) + tail


TAMPERINGS = (_edit_kept, _rechain_to_next_withheld, _edit_withheld, _drop_withheld, _withhold_one_more)


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_tampering_with_the_rest_shows(stage: Stage, small: str, tamper: Callable[[list[bytes]], None]) -> None:
    stage.holdfast("prune", small, "--to", "transcripts", "-y")
    file = compressed(stage.home, small)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    original = list(lines)
    tamper(lines)
    assert lines != original
    file.write_bytes(b"".join(compress(iter(lines), 1)))
    assert "damaged" in stage.holdfast("verify", small, code=1).out


def test_damaged_frame_is_one_clear_line(stage: Stage, small: str) -> None:
    stage.holdfast("prune", small)
    file = compressed(stage.home, small)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    assert "is damaged at byte" in stage.holdfast("verify", small, code=1).complaint


def test_deleted_run_leaves_its_summary_and_the_end_of_its_chain(stage: Stage, archived: str) -> None:
    verdict = stage.holdfast("verify", archived, "--json").object
    assert "not a terminal" in stage.holdfast("prune", archived, "--to", "delete", code=5).err
    stage.holdfast("prune", archived, "--to", "delete", "-y")
    assert stage.holdfast("ls", "--json").out == ""
    assert not os.path.exists(run_folder(stage.home, archived))
    left = stage.holdfast("show", archived, "--json").object
    assert (left["goal"], left["chain"]) == ("say hello kelp", verdict["chain"])
    shown = stage.holdfast("show", archived).out
    assert "deleted by a retention rule" in shown
    assert "0 tokens, cost unknown" in shown
    assert "was deleted by a retention rule" in stage.holdfast("logs", archived, code=4).complaint
    assert stage.project.show("main:hello.txt") == "hello"


KILLS = (
    *(f"log.compress.{where}" for where in ("before", "torn", "after")),
    *(f"log.compress.delete_plain.{where}" for where in ("before", "after")),
)
WITHHOLDING_KILLS = (
    *((f"log.expand.{where}", 1) for where in ("before", "torn", "after")),
    *((f"log.expand.delete_compressed.{where}", 1) for where in ("before", "after")),
    *((f"journal.append.{where}", number) for where in ("before", "torn", "after") for number in (1, 2, 3)),
    *((failpoint, 1) for failpoint in KILLS),
)
DELETION_KILLS = (
    *(f"tombstone.write.{where}" for where in ("before", "after")),
    *(f"run.discard.{where}" for where in ("before", "after")),
)


def _kill(stage: Stage, failpoint: str, *arguments: str, passes: int = 1) -> None:
    folder = os.path.join(stage.folder, "failpoint")
    os.makedirs(folder, exist_ok=True)
    environment = failpoint_environment(folder, f"{failpoint}:{passes}")
    stage.holdfast(*arguments, code=-signal.SIGKILL, cold=True, env=environment)


@pytest.mark.parametrize("failpoint", KILLS)
def test_killed_compression_leaves_the_whole_log(stage: Stage, small: str, failpoint: str) -> None:
    before = stage.holdfast("logs", small, "--json").out
    _kill(stage, failpoint, "prune", small)
    assert stage.holdfast("logs", small, "--json").out == before
    assert stage.holdfast("verify", small).out.startswith("intact")
    stage.holdfast("prune", small, code=4 if failpoint.endswith("delete_plain.after") else 0)
    assert stage.holdfast("logs", small, "--json").out == before
    assert sorted(name for name in os.listdir(run_folder(stage.home, small)) if name.startswith(LOG)) == [f"{LOG}.gz"]


@pytest.mark.parametrize(("failpoint", "passes"), every(2, WITHHOLDING_KILLS))
def test_killed_withholding_is_finished_by_the_next_one(stage: Stage, small: str, failpoint: str, passes: int) -> None:
    stage.holdfast("prune", small)
    _kill(stage, failpoint, "prune", small, "--to", "transcripts", "-y", passes=passes)
    is_torn = failpoint == "journal.append.torn"
    assert stage.holdfast("verify", small, "--json", code=is_torn).object["damage_count"] == is_torn
    last = failpoint == "log.compress.delete_plain.after"
    stage.holdfast("prune", small, "--to", "transcripts", "-y", code=4 if last else 0)
    assert "withheld by rule transcripts" in stage.holdfast("verify", small).out
    assert "message.recorded" not in stage.holdfast("logs", small, "--json", "--type", "message.*").out
    assert not plain(stage.home, small).exists()


@pytest.mark.parametrize("failpoint", DELETION_KILLS)
def test_killed_deletion_is_finished_by_the_next_one(stage: Stage, small: str, failpoint: str) -> None:
    _kill(stage, failpoint, "prune", small, "--to", "delete", "-y")
    if stage.holdfast("ls", "--json").out:
        assert stage.holdfast("verify", small).out.startswith("intact")
        stage.holdfast("prune", small, "--to", "delete", "-y")
    assert stage.holdfast("ls", "--json").out == ""
    assert stage.holdfast("show", small, "--json").object["goal"] == "say hello kelp"


def _configure(home: str, **settings: str) -> None:
    folder = Path(home, "config", "holdfast")
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f'{name} = "{value}"\n' for name, value in settings.items()]
    (folder / "config.toml").write_text("[retention]\n" + "".join(lines))


def test_settings_choose_the_runs_by_age_and_state(holdfast: Program) -> None:
    archived = (said("kelp"), RunArchived(salvaged=[]), DONE)
    make_run(holdfast.home, "old-abc234", *archived, at=OLD)
    make_run(holdfast.home, "new-abc234", *archived, at=now())
    make_run(holdfast.home, "open-abc234", said("kelp"), at=OLD)
    assert "no retention is set" in holdfast("prune", code=2).complaint
    _configure(holdfast.home, compress_after="30d")
    assert holdfast("prune", "--dry-run", "--json").object["id"] == "old-abc234"
    assert plain(holdfast.home, "old-abc234").exists()
    holdfast("prune")
    assert compressed(holdfast.home, "old-abc234").exists()
    assert "nothing is due" in holdfast("prune", code=4).complaint
    make_run(holdfast.home, "told-abc234", *archived, at=OLD)
    holdfast("send", "told-abc234", "make it blue")  # which no agent has read
    _configure(holdfast.home, compress_after="30d", delete_after="60d")
    holdfast("prune", "-y")
    assert {run["id"] for run in holdfast("ls", "--json").objects} == {"new-abc234", "open-abc234", "told-abc234"}


def test_run_is_not_deleted_before_the_steps_that_come_first(holdfast: Program) -> None:
    """Its messages were to stay for ten years, and the run for a day after that."""
    make_run(holdfast.home, "old-abc234", said("kelp"), RunArchived(salvaged=[]), DONE, at=OLD)
    _configure(holdfast.home, transcripts_after="3650d", delete_after="1d")
    assert "nothing is due" in holdfast("prune", "-y", code=4).complaint
    _configure(holdfast.home, compress_after="30d", transcripts_after="3650d", delete_after="1d")
    assert holdfast("prune", "--dry-run", "--json").object["step"] == "compress"
    holdfast("prune", "-y")
    assert "nothing is due" in holdfast("prune", "-y", code=4).complaint
    assert "kelp" in holdfast("logs", "old").out
    _configure(holdfast.home, compress_after="30d", transcripts_after="60d", delete_after="60d")
    holdfast("prune", "-y")
    assert holdfast("ls", "--json").out == ""


def test_interrupted_run_that_was_archived_is_no_run_for_a_rule(holdfast: Program) -> None:
    """A person archived work that never ended: only a person prunes it."""
    make_run(holdfast.home, "open-abc234", said("kelp"), RunArchived(salvaged=[]), at=OLD)
    _configure(holdfast.home, delete_after="1d")
    assert "nothing is due" in holdfast("prune", "-y", code=4).complaint
    holdfast("prune", "--older-than", "30d")
    assert compressed(holdfast.home, "open-abc234").exists()


def test_worktrees_of_a_finished_run_go_and_its_work_can_be_merged(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    _configure(stage.home, worktrees_after="0.001s")
    due = stage.holdfast("prune", "--dry-run", "--json").object
    assert (due["id"], due["step"]) == (run, "worktrees")
    assert os.path.isdir(os.path.join(run_folder(stage.home, run), "workspace"))
    stage.holdfast("prune")
    assert not os.path.exists(os.path.join(run_folder(stage.home, run), "workspace"))
    assert "nothing is due" in stage.holdfast("prune", code=4).complaint
    stage.holdfast("merge", run)
    assert stage.project.show("main:hello.txt") == "hello"
    assert stage.holdfast("verify", run).out.startswith("intact")


def test_repository_cannot_set_retention(stage: Stage) -> None:
    Path(stage.project.path, ".holdfast.toml").write_text('[retention]\ndelete_after = "1s"\n')
    assert "no retention is set" in stage.holdfast("prune", code=2).complaint


@pytest.mark.parametrize("command", [("watch",), ("serve", "--port", "0", "--api-only")], ids=["watch", "serve"])
def test_programs_that_stay_apply_the_settings(holdfast: Program, command: tuple[str, ...]) -> None:
    make_run(holdfast.home, "old-abc234", said("kelp"), RunArchived(salvaged=[]), DONE, at=OLD)
    _configure(holdfast.home, compress_after="30d")
    with holdfast.start(*command) as process:
        asyncio.run(until(lambda: compressed(holdfast.home, "old-abc234").exists()))
        asyncio.run(until(lambda: not plain(holdfast.home, "old-abc234").exists()))
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert holdfast("verify", "old").out.startswith("intact")

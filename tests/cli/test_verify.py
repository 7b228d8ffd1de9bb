"""`verify`: a whole log is said to be whole, and of any other the first bad line is named."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.log import chain
from tests.cli.foreign import SEED_LOG, event, put, started
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import DONE, log_of, make_run, said, tasks

RUN = "auth-abc234"

Lines = list[bytes]


@pytest.fixture
def log(holdfast: Program) -> Path:
    """The log of a run of ours: eight lines."""
    make_run(holdfast.home, RUN, *tasks(2), said("Grüße"), DONE)
    path = log_of(holdfast.home, RUN)
    assert path.read_bytes().count(b"\n") == 8
    return path


def without_chain(lines: Lines) -> Lines:
    return [chain.unseal(line)[0] + b"\n" for line in lines]


def chained_anew(lines: Lines) -> Lines:
    link, found = chain.GENESIS, []
    for bare in without_chain(lines):
        line, link = chain.seal(link, bare.rstrip().replace(b"\t}", b"}"))  # no word of lines that are not there
        found.append(line + b"\n")
    return found


def change(path: Path, make: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(make(path.read_bytes().splitlines(keepends=True))))


def test_a_run_that_is_whole_is_said_to_be(holdfast: Program, log: Path) -> None:
    link = chain.carried_link(log.read_bytes().splitlines()[-1])
    outcome = holdfast("verify", RUN)
    assert outcome.lines[0] == f"intact  {RUN}  8 lines, 8 events, 1 session  chain {link}"
    assert outcome.err == ""


def test_a_run_is_held_to_its_chain_however_one_comes_to_it(holdfast: Program, log: Path) -> None:
    os.symlink(log, os.path.join(holdfast.cwd, "link"))
    change(log, without_chain)
    for name in (RUN, "auth", str(log), str(log.parent), str(log.parents[1]), "./link"):
        assert f"damaged  {RUN}  line 1: carries no link" in holdfast("verify", name, code=1).out


DAMAGES: dict[str, tuple[Callable[[Lines], Lines], int | None, str]] = {
    "nothing": (lambda lines: lines, None, ""),
    "a-value-changed": (lambda lines: [*lines[:2], lines[2].replace(b'"1"', b'"2"'), *lines[3:]], 3, "chain broken"),
    "a-number-changed": (lambda lines: [lines[0].replace(b'"seq":0', b'"seq":1'), *lines[1:]], 1, "gap"),
    "the-last-changed": (lambda lines: [*lines[:7], lines[7].replace(b"all_done", b"all_dine")], 8, "chain broken"),
    "a-brace-changed": (lambda lines: [*lines[:4], lines[4].replace(b"{", b"[", 1), *lines[5:]], 5, "not"),
    "no-text": (lambda lines: [*lines[:6], lines[6].replace("ü".encode(), b"\xc3("), *lines[7:]], 7, "not UTF-8"),
    "a-space-inserted": (lambda lines: [*lines[:2], lines[2].replace(b":", b": ", 1), *lines[3:]], 3, "chain broken"),
    "the-first-deleted": (lambda lines: lines[1:], 1, "gap"),
    "one-deleted": (lambda lines: [*lines[:4], *lines[5:]], 5, "gap"),
    "two-swapped": (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], 4, "gap"),
    "an-event-inserted": (lambda lines: [*lines[:3], event("x", 0, sid="n"), *lines[3:]], 4, "carries no link"),
    "a-word-inserted": (lambda lines: [*lines[:3], b"hello\n", *lines[3:]], 4, "not JSON"),
    "zeros-inserted": (lambda lines: [*lines[:3], b"\0" * 64 + b"\n", *lines[3:]], 4, "zero bytes"),
    "one-doubled": (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4, "duplicate"),
    "the-last-doubled": (lambda lines: [*lines, lines[7]], 9, "duplicate"),
    "a-blank-line": (lambda lines: [*lines[:3], b"\n", *lines[3:]], 4, "blank"),
    "a-blank-last-line": (lambda lines: [*lines, b"\n"], 9, "blank"),
    "a-torn-end": (lambda lines: [*lines, b'{"v":1,"ts'], 9, "torn"),
    "no-last-newline": (lambda lines: [*lines[:7], lines[7][:-1]], 8, "torn"),
    "the-last-torn": (lambda lines: [*lines[:7], lines[7][:-40]], 8, "torn"),
    "half-a-call": (lambda lines: lines[:7], 8, "torn"),
    "the-last-call-cut-off": (lambda lines: lines[:1], 2, "truncated"),
    "everything-cut-off": (lambda lines: [], 1, "truncated"),
    "cut-off-and-chained-anew": (lambda lines: chained_anew(lines[:5]), 6, "truncated or rewritten"),
    "changed-and-chained-anew": (lambda lines: chained_anew([*lines[1:]]), 1, "gap"),
    "rewritten-and-chained-anew": (
        lambda lines: chained_anew([*lines[:7], lines[7].replace(b"all_done", b"all_dine")]),
        9,
        "truncated or rewritten",
    ),
    "no-chain": (without_chain, 1, "carries no link"),
    "no-chain-at-the-end": (lambda lines: [*lines[:5], *without_chain(lines[5:])], 6, "carries no link"),
    "no-link-in-one": (lambda lines: [*lines[:5], *without_chain(lines[5:6]), *lines[6:]], 6, "carries no link"),
    "line-ends-of-windows": (lambda lines: [line.replace(b"\n", b"\r\n") for line in lines], 1, "after the end"),
    "a-byte-order-mark": (lambda lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]], 1, ""),
}


def test_the_first_damaged_line_is_named_whatever_the_damage(holdfast: Program, log: Path) -> None:
    for name, (damage, _, _) in DAMAGES.items():
        copy = shutil.copytree(log.parent, log.parents[1] / name) / log.name
        change(copy, damage)
    before = {path: path.read_bytes() for path in log.parents[1].glob("*/*")}

    found = {verdict["log"]: verdict for verdict in holdfast("verify", str(log.parents[1]), "--json", code=1).objects}

    assert found.keys() == {RUN, *DAMAGES}
    for name, (_, line, reason) in DAMAGES.items():
        first: dict[str, Any] = found[name]["damage"][0] if found[name]["damage"] else {"line": None, "reason": ""}
        assert (name, found[name]["whole"], first["line"]) == (name, line is None, line)
        assert reason in first["reason"], name
    assert {path: path.read_bytes() for path in log.parents[1].glob("*/*")} == before, "it only looks"


def test_damage_is_told_in_the_first_line_with_its_place(holdfast: Program, log: Path) -> None:
    change(log, lambda lines: [*lines[:3], lines[2], *lines[3:]])
    outcome = holdfast("verify", RUN, code=1)
    assert outcome.lines[0].startswith(f"damaged  {RUN}  line 4: duplicate: session ")
    assert outcome.err == "read 9 lines, 9 events, 1 session; the log was not changed\n"


def test_json_names_all_that_is_damaged(holdfast: Program, log: Path) -> None:
    change(log, lambda lines: [*lines[:2], b"\n", *lines[2:4], b"noise\n", *lines[4:]])
    found = holdfast("verify", RUN, "--json", code=1).object
    assert (found["log"], found["whole"], found["lines"], found["events"]) == (RUN, False, 10, 8)
    assert [damage["line"] for damage in found["damage"]][:2] == [3, 4]
    assert found["damage_count"] == len(found["damage"])


def test_json_of_a_whole_run_tells_its_chain(holdfast: Program, log: Path) -> None:
    found = holdfast("verify", RUN, "--json").object
    assert (found["whole"], found["chained"], found["damage"]) == (True, True, [])
    assert found["chain"] == chain.carried_link(log.read_bytes().splitlines()[-1])


def test_much_damage_is_counted_not_listed(holdfast: Program, log: Path) -> None:
    change(log, lambda lines: [*lines, *[b"noise\n"] * 500])
    outcome = holdfast("verify", RUN, code=1)
    assert len(outcome.lines) == 11
    assert outcome.lines[-1].strip() == "… and 490 more"


def test_a_run_without_events_is_whole(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "events.jsonl", log=b"")
    assert holdfast("verify", RUN).out.startswith(f"intact  {RUN}  0 lines, 0 events, 0 sessions")


def test_what_a_live_owner_is_writing_is_no_damage(holdfast: Program, log: Path) -> None:
    with owner_of(holdfast.home, RUN) as owner:
        owner.say("hello")
        owner.write_raw('{"v":1,"ts":"2026-02-14T10:0')
        assert holdfast("verify", RUN).out.startswith(f"intact  {RUN}  10 lines")
        owner.kill()
        assert f"damaged  {RUN}  line 11: torn" in holdfast("verify", RUN, code=1).out


def test_a_call_that_a_live_owner_is_writing_is_no_damage(holdfast: Program, log: Path) -> None:
    """Of a call, the first line is there."""
    with owner_of(holdfast.home, RUN) as owner:
        half, _ = chain.seal(chain.GENESIS, chain.mark_more_to_come(b'{"sid":"s","seq":0,"type":"x"}'), b"\n")
        owner.say("hello")
        with log.open("ab") as file:
            file.write(half)
        assert holdfast("verify", RUN).out.startswith(f"intact  {RUN}  10 lines")
        owner.kill()
        assert f"damaged  {RUN}  line 12: torn" in holdfast("verify", RUN, code=1).out


def test_a_log_of_another_tool_needs_no_chain(holdfast: Program) -> None:
    path = put(holdfast.cwd, "events.jsonl", log=SEED_LOG)
    assert holdfast("verify", path).out == (
        f"intact  {path}  11 lines, 11 events, 1 session  no chain: written by another tool\n"
    )
    assert holdfast("verify", path, "--json").object["chained"] is False


def test_a_log_of_another_tool_is_checked_for_all_the_rest(holdfast: Program) -> None:
    logs = {
        "gap": (started() + event("x", 2), 2, "gap: session s1 goes from seq 0 to 2"),
        "begins": (event("x", 3), 1, "gap: session s1 goes from seq -1 to 3"),
        "twice": (started() + started(), 2, "duplicate"),
        "array": (started() + b"[]\n", 2, "not an event"),
        "unfit": (started() + event("task.started", 1, {"no": "id"}), 2, "data does not fit task.started"),
        "torn": (started() + event("x", 1).rstrip(), 2, "torn: the last write has no end"),
    }
    for name, (log, _, _) in logs.items():
        put(holdfast.cwd, name, "events.jsonl", log=log)
    out = holdfast("verify", ".", code=1).out
    for name, (_, line, reason) in logs.items():
        assert f"damaged  ./{name}/events.jsonl  line {line}: {reason}" in out


def test_events_of_unknown_types_and_versions_are_whole(holdfast: Program) -> None:
    path = put(
        holdfast.cwd, "events.jsonl", log=started() + event("unheard.of", 1, [1]) + event("task.started", 2, v=9)
    )
    assert holdfast("verify", path).out.startswith("intact")


def test_a_log_that_another_tool_began_and_we_went_on_with_keeps_its_chain_from_there(holdfast: Program) -> None:
    put(holdfast.home, "runs", RUN, "inbox.jsonl", log=b"")
    path = put(holdfast.home, "runs", RUN, "events.jsonl", log=SEED_LOG)
    with owner_of(holdfast.home, RUN) as owner:
        owner.end()
    copy = put(holdfast.cwd, "copy.jsonl", log=Path(path).read_bytes())
    assert " chain " in holdfast("verify", copy).out
    change(Path(copy), lambda lines: [lines[0].replace(b"strict", b"strikt"), *lines[1:]])
    assert "line 12: chain broken" in holdfast("verify", copy, code=1).out


def test_a_folder_of_features_is_verified_one_by_one(holdfast: Program) -> None:
    put(holdfast.cwd, "good", "events.jsonl", log=SEED_LOG)
    put(holdfast.cwd, "bad", "events.jsonl", log=SEED_LOG + b"noise\n")
    outcome = holdfast("verify", ".", code=1)
    assert sorted(line.split()[0] for line in outcome.lines) == ["damaged", "intact"]


def test_escape_sequences_in_a_damaged_log_do_not_reach_the_terminal(holdfast: Program) -> None:
    path = put(holdfast.cwd, "events.jsonl", log=started() + event("x", 5, sid="\x1b[31mred\x9b"))
    out = holdfast("verify", path, code=1).out
    assert "\x1b" not in out
    assert "\x9b" not in out

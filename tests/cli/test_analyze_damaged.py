"""`analyze` on logs that are torn, doubled, foreign or no logs at all: never a crash, never silent."""

import json
import os
from typing import Any

from tests.cli.foreign import SEED_LOG, checkpoint, event, put, started
from tests.cli.program import Program

BOM = b"\xef\xbb\xbf"


def analysed(holdfast: Program, *log: bytes) -> Any:
    return holdfast("analyze", put(holdfast.cwd, "events.jsonl", log=b"".join(log)), "--json").object


def analysed_each(holdfast: Program, logs: list[bytes]) -> list[Any]:
    """The analyses of many logs, by one process."""
    for age, log in enumerate(logs):
        path = put(holdfast.cwd, "features", str(age), "events.jsonl", log=log)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))  # the newest comes first
    return holdfast("analyze", "features", "--json").objects


def test_a_torn_last_line_is_set_aside_and_told(holdfast: Program) -> None:
    torn = SEED_LOG[:-20]
    found = analysed(holdfast, torn)
    assert found["events"] == 10
    (note,) = found["malformed"]
    assert note["line"] == 11
    assert "torn" in note["reason"]
    assert found["decision"]["case"] == "auto"


def test_a_whole_last_line_counts_though_its_newline_is_missing(holdfast: Program) -> None:
    found = analysed(holdfast, SEED_LOG.rstrip(b"\n"))
    assert (found["events"], found["malformed"]) == (11, [])


def test_a_missing_newline_may_end_a_session(holdfast: Program) -> None:
    found = analysed(holdfast, started(), event("session.end", 1).rstrip(b"\n"))
    assert (found["interrupted"], found["decision"]["case"]) == (False, "complete")


def test_a_missing_newline_may_hide_a_doubled_number(holdfast: Program) -> None:
    found = analysed(holdfast, started(), checkpoint(1, "earlier"), checkpoint(1, "later").rstrip(b"\n"))
    assert found["checkpoint"]["label"] == "later"
    assert (found["events"], len(found["duplicates"])) == (2, 1)


def test_line_ends_of_windows_are_line_ends(holdfast: Program) -> None:
    found = analysed(holdfast, SEED_LOG.replace(b"\n", b"\r\n"))
    assert (found["events"], found["malformed"], found["decision"]["case"]) == (11, [], "auto")


def test_a_byte_order_mark_is_no_damage(holdfast: Program) -> None:
    found = analysed(holdfast, BOM, SEED_LOG)
    assert (found["events"], found["malformed"]) == (11, [])


def test_blank_lines_are_passed_over_in_silence(holdfast: Program) -> None:
    found = analysed(holdfast, b"\n  \n\t\r\n", SEED_LOG.replace(b"\n", b"\n\n"), b"   ")
    assert (found["events"], found["malformed"], found["gaps"]) == (11, [], [])


NO_EVENTS = [
    b"not json",
    b"{",
    b'{"sid":"s1","seq":1,"type":"x"',
    b"[]",
    b"null",
    b"42",
    b'"text"',
    b"{}",
    b'{"hello":"world"}',
    b'{"sid":"s1","seq":1}',
    b'{"sid":"s1","type":"x"}',
    b'{"seq":1,"type":"x"}',
    b'{"sid":"s1","seq":"1","type":"x"}',
    b'{"sid":"s1","seq":-1,"type":"x"}',
    b'{"sid":"s1","seq":1.5,"type":"x"}',
    b'{"sid":null,"seq":1,"type":"x"}',
    b'{"sid":"s1","seq":1,"type":5}',
    b'{"sid":"s1","seq":1,"type":"x"} {"sid":"s1","seq":2,"type":"y"}',
    b'{"sid":"s\xff","seq":1,"type":"x"}',
    b"\x00" * 512,
    b"\x1f\x8b\x08\x00\xff\xfe\x80",
    b"[" * 100_000,
]


def test_a_line_that_is_no_event_is_named_and_the_rest_is_read(holdfast: Program) -> None:
    logs = [started() + line + b"\n" + checkpoint(1) for line in NO_EVENTS]
    for line, found in zip(NO_EVENTS, analysed_each(holdfast, logs), strict=True):
        assert [note["line"] for note in found["malformed"]] == [2], line
        assert found["malformed"][0]["reason"]
        assert (found["events"], found["gaps"], found["decision"]["case"]) == (2, [], "auto"), line


def test_data_that_does_not_fit_its_type_is_named_and_passed_over(holdfast: Program) -> None:
    unfit = [5, "text", [], {"taskId": ["list"]}, {"summary": "without an id"}]
    logs = [started() + event("task.started", 1, data) + checkpoint(2) for data in unfit]
    for data, found in zip(unfit, analysed_each(holdfast, logs), strict=True):
        (note,) = found["malformed"]
        assert note["line"] == 2, data
        assert "task.started" in note["reason"]
        assert (found["gaps"], found["tasks"]) == ([], {})


def test_an_event_that_is_not_known_here_is_an_event(holdfast: Program) -> None:
    unknown = [
        event("wholly.unknown", 1, {"anything": [1, {"deep": None}]}),
        event("task.started", 1, {"taskId": "9", "shape": "of the future"}, v=99),
        event("x", 1, None, extra="field", trace_id=7),
        b'{"sid":"s1","seq":1,"type":"x"}\n',
        b'  {"type" : "x", "seq" : 1, "sid" : "s1"}  \n',
    ]
    for line, found in zip(
        unknown, analysed_each(holdfast, [started() + line + checkpoint(2) for line in unknown]), strict=True
    ):
        assert (found["events"], found["malformed"], found["gaps"], found["tasks"]) == (3, [], [], {}), line


def test_a_log_without_a_single_event_leaves_nothing_to_resume(holdfast: Program) -> None:
    logs = [b"", b"\n\n", b"garbage\n", b"\x00" * 4096, b'{"torn', bytes(range(256)) * 40]
    for log, found in zip(logs, analysed_each(holdfast, logs), strict=True):
        assert (found["sid"], found["interrupted"], found["decision"]["case"]) == (None, False, "complete")
        assert bool(found["malformed"]) == bool(log.strip())


def test_the_report_of_an_empty_log_says_so(holdfast: Program) -> None:
    path = put(holdfast.cwd, "events.jsonl", log=b"")
    assert "No session found; nothing to resume." in holdfast("analyze", path).out


def test_text_of_any_language_comes_out_as_it_went_in(holdfast: Program) -> None:
    label = "étape – 第一波 \U0001f30a"
    found = analysed(holdfast, started(feature=label), checkpoint(1, label))
    assert (found["feature"], found["checkpoint"]["label"]) == (label, label)


def test_a_terminal_that_cannot_show_it_does_not_stop_the_report(holdfast: Program) -> None:
    path = put(holdfast.cwd, "events.jsonl", log=started(feature="第一波"))
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    assert r"\u7b2c\u4e00\u6ce2" in holdfast("analyze", path, env=ascii_only, cold=True).out
    assert json.loads(holdfast("analyze", path, "--json", env=ascii_only, cold=True).out)["feature"] == "第一波"

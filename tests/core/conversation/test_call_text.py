"""A permission request in words: nothing is hidden, nothing drives the terminal, and what is cut says so."""

from typing import Any

import msgspec
import pytest

from holdfast.core.conversation.call_text import call_lines, call_summary, cut_lines, shorten, to_printable
from holdfast.core.events.conversation import FileDiff, PermissionRequested


def asked(title: str = "bench", given: Any = None, **more: Any) -> PermissionRequested:
    raw = msgspec.Raw(msgspec.json.encode(given))
    return PermissionRequested(conversation="c", request="r", title=title, input=raw, **more)


def test_the_command_comes_before_the_models_description() -> None:
    request = asked(given={"command": "rm -rf build", "description": "bench"}, command="rm -rf build")
    assert call_summary(request) == "rm -rf build (bench)"
    assert call_lines(request) == ["runs   rm -rf build", "input  description: bench"]


def test_a_title_that_is_the_command_is_said_once() -> None:
    assert call_summary(asked("npm test", {"command": "npm test"}, command="npm test")) == "npm test"


def test_an_edit_is_shown_as_its_changes() -> None:
    diff = FileDiff(path="/w/a.py", old="one\ntwo\n", new="one\n2\n")
    request = asked("Edit file", {"file_path": "/w/a.py", "all": True}, paths=["/w/a.py"], diffs=[diff])
    assert call_summary(request) == "Edit file: /w/a.py"
    lines = call_lines(request)
    assert lines[0] == "path   /w/a.py"
    assert "       -two" in lines
    assert "       +2" in lines
    assert lines[-1] == "input  all: true"


def test_a_new_file_is_shown_whole() -> None:
    request = asked("Write", diffs=[FileDiff(path="a", new="x\ny\n")])
    assert call_lines(request) == ["writes a", "       +x", "       +y"]


def test_text_in_an_input_keeps_its_lines() -> None:
    assert call_lines(asked(given={"plan": "a\nb"})) == ["input  plan: a", "         b"]


def test_a_call_without_an_input_says_so() -> None:
    lines = call_lines(asked("Do something", note="Allow it?"))
    assert lines[0] == "shows  Allow it?"
    assert "only its title is known" in lines[-1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2K", "\\x1b[2K"),
        ("a\rb", "a\\rb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\xa0b", "a\\xa0b"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        ("a\nb", "a ⏎ b"),
        ("grün 木 ✓", "grün 木 ✓"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert to_printable(text) == shown


def test_no_line_of_a_request_has_control_characters() -> None:
    evil = "\x1b]0;x\x07 \u202e \x00"
    diff = FileDiff(path=evil, old=f"{evil}\n", new="x\n")
    request = asked(evil, {evil: evil, "n": [evil]}, command=f"a {evil}\nb", paths=[evil], diffs=[diff], note=evil)
    for line in [call_summary(request), *call_lines(request)]:
        assert line.isprintable()


def test_what_is_cut_is_counted_and_the_end_stays() -> None:
    lines = [f"line {number}" for number in range(100)]
    shown = cut_lines(lines, 20, "holdfast show x --json")
    assert shown[0] == "line 0"
    assert "line 99" in shown
    assert "… 80 lines left out …" in shown
    assert "characters are not shown; holdfast show x --json" in shown[-1]
    assert cut_lines(lines, 100, "") == lines


def test_a_long_line_shows_its_end() -> None:
    line = "echo ok;" + " " * 5_000 + "rm -rf ~"
    short = shorten(line, 1_000)
    assert short.startswith("echo ok;")
    assert short.endswith("rm -rf ~")
    assert "4,016 more characters" in short
    assert "4,016" not in shorten(line, len(line))
    assert "not shown" in cut_lines([line], 5, "there")[-1]

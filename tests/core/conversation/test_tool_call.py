"""A tool call, put together from what real agents were seen to send before and with a permission request."""

from typing import Any

import pytest

from holdfast.core.conversation.tool_call import command_of, read_tool_call
from holdfast.core.events.conversation import FileDiff


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def test_copilot_names_a_call_as_the_model_describes_it() -> None:
    known = {
        "toolCallId": "c1",
        "title": "bench",
        "kind": "execute",
        "rawInput": {"command": "rm -rf build", "description": "bench", "mode": "sync"},
    }
    asked = {
        "toolCallId": "c1",
        "title": "bench",
        "kind": "execute",
        "rawInput": {"command": "rm -rf build", "commands": ["rm -rf build"]},
    }
    call = read_tool_call(asked, known)
    assert (call.title, call.command) == ("bench", "rm -rf build")
    assert call.input == {
        "command": "rm -rf build",
        "description": "bench",
        "mode": "sync",
        "commands": ["rm -rf build"],
    }


def test_kimi_has_the_input_only_in_the_text_of_earlier_updates() -> None:
    known = {"toolCallId": "2:c", "title": "Bash", "kind": "execute", "content": [text('{"command":"rm -rf build"}')]}
    asked = {"toolCallId": "2:c", "title": "Bash", "content": [text("Requesting approval to Running: rm -rf build")]}
    call = read_tool_call(asked, known)
    assert (call.title, call.kind, call.command) == ("Bash", "execute", "rm -rf build")
    assert call.note == ""


def test_opencode_asks_with_an_empty_input() -> None:
    known = {
        "toolCallId": "c",
        "title": "x",
        "rawInput": {"command": "make", "cwd": "/w"},
        "locations": [{"path": "/w"}],
    }
    call = read_tool_call({"toolCallId": "c", "title": "bash", "kind": "execute", "rawInput": {}}, known)
    assert (call.command, call.paths) == ("make", ("/w",))


def test_gemini_tells_no_input_and_shows_the_change() -> None:
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "a\n", "newText": "b\n"}
    call = read_tool_call({"toolCallId": "c", "title": "a.py: a => b", "kind": "edit", "content": [diff]})
    assert call.diffs == (FileDiff(path="/w/a.py", old="a\n", new="b\n"),)
    assert (call.paths, call.input) == (("/w/a.py",), None)


def test_half_a_streamed_input_is_no_input() -> None:
    known = {"toolCallId": "c", "title": "Bash", "content": [text('{"command":"rm -rf')]}
    call = read_tool_call({"toolCallId": "c", "title": "Bash"}, known)
    assert (call.command, call.input) == (None, None)


def test_paths_come_from_locations_changes_and_input() -> None:
    diff = {"type": "diff", "path": "/w/b", "newText": ""}
    call = read_tool_call(
        {"title": "x", "locations": [{"path": "/w/a"}], "content": [diff], "rawInput": {"file_path": "/w/c"}}
    )
    assert call.paths == ("/w/a", "/w/b", "/w/c")


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"command": "npm test"}, "npm test"),
        ({"cmd": "npm test"}, "npm test"),
        ({"command": ["npm", "run", "two words"]}, "npm run 'two words'"),
        ({"command": ["/bin/bash", "-lc", "npm test; ls"]}, "npm test; ls"),
        ({"command": ["./bash", "-lc", "npm test"]}, "./bash -lc 'npm test'"),
        ({"command": "git", "args": ["push", "--force"]}, "git push --force"),
        ({"command": "sh", "args": ["-c", "a | b"]}, "a | b"),
        ({"command": "ls", "args": []}, "ls"),
        ({"command": 3}, None),
        ({"path": "a"}, None),
        ("npm test", None),
        (None, None),
    ],
)
def test_the_command_in_an_input(given: Any, command: str | None) -> None:
    assert command_of(given) == command


@pytest.mark.parametrize("odd", [3, "x", [1], {"type": "diff"}, [{"type": "content", "content": 3}], [None]])
def test_what_is_not_as_the_protocol_has_it_is_passed_over(odd: Any) -> None:
    call = read_tool_call(
        {"title": "x", "content": odd, "locations": odd, "_meta": odd, "rawInput": odd}, {"_meta": odd}
    )
    assert call.title == "x"

"""Prints the path of calls from `holdfast run` to the first prompt: the tour of the code in CONTRIBUTING.md.

.venv/bin/python scripts/call_path.py            the path, as a table
.venv/bin/python scripts/call_path.py --json     the same, as data
.venv/bin/python scripts/call_path.py --check    exit 1 when the path has more calls or files than the goal allows

What is counted: a real `holdfast run` with a playbook agent works on a scratch repository, in a child process under
`sys.setprofile`. At the moment when it sends its first `session/prompt`, the functions of `holdfast` on the call stack
are the path. Where a function runs in an asyncio task, the stack goes on with the code that created the task. Calls
inside libraries, class and module bodies and comprehensions are left out. "Entered" counts every function of `holdfast`
that ran until then, on the path or not.
"""

import argparse
import asyncio
import inspect
import json
import os
import subprocess
import sys
import tempfile
from types import CodeType, FrameType
from typing import Any, NamedTuple

import holdfast

MAX_CALLS = 40
MAX_FILES = 20
_SOURCE = os.path.dirname(os.path.abspath(holdfast.__file__)) + os.sep
_SENDERS = {"send_request", "request"}  # functions that send a JSON-RPC request; their arguments name the method
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_PLAYBOOK = {"turns": [], "otherwise": [{"write": {"path": "hello.txt", "text": "hello\n"}}, {"say": "done"}]}


class Call(NamedTuple):
    """A function on the path, and the line at which it calls the next one."""

    function: str
    file: str
    line: int


class Recorder:
    """A profile function that notes the path to the first prompt, and then removes itself."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._entered: set[CodeType] = set()
        self._creators: dict[asyncio.Task[Any], list[Call]] = {}

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event == "call":
            if _is_own_function(code):
                self._entered.add(code)
            if code.co_name in _SENDERS and "session/prompt" in frame.f_locals.values():
                sys.setprofile(None)
                self._write(frame)
        elif event == "return" and code.co_name == "create_task" and isinstance(result, asyncio.Task):
            self._creators[result] = self._path_to(frame)

    def _path_to(self, frame: FrameType | None) -> list[Call]:
        """The functions of ours that led to this frame, the outermost first."""
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no event loop runs yet
            task = None
        calls = []
        while frame is not None and not (task is not None and _is_event_loop(frame.f_code)):
            if _is_own_function(frame.f_code):
                file = frame.f_code.co_filename.removeprefix(_SOURCE)
                calls.append(Call(frame.f_code.co_qualname, file, frame.f_lineno))
            frame = frame.f_back
        creator = self._creators.get(task, []) if task is not None else []
        return creator + calls[::-1]

    def _write(self, frame: FrameType) -> None:
        path = self._path_to(frame)
        files = {code.co_filename for code in self._entered}
        data = {"path": path, "entered": len(self._entered), "entered_files": len(files)}
        with open(self._output, "w", encoding="utf-8") as file:
            json.dump(data, file)


def _is_own_function(code: CodeType) -> bool:
    """False for code of others, and for the bodies of modules, classes and comprehensions."""
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in _COMPREHENSIONS
    return bool(is_function) and code.co_filename.startswith(_SOURCE)


def _is_event_loop(code: CodeType) -> bool:
    """True for the function of asyncio that runs one step of a task."""
    return code.co_qualname == "Handle._run"


def record(output: str, arguments: list[str]) -> int:
    """The child: `holdfast` with these arguments, recorded."""
    from holdfast.app.cli.main import main  # noqa: PLC0415 - only the child runs it

    sys.setprofile(Recorder(output))
    return main(arguments)


def measure() -> dict[str, Any]:
    """Run `holdfast run` once, on a repository made for it."""
    with tempfile.TemporaryDirectory() as folder:
        repository, output = os.path.join(folder, "repository"), os.path.join(folder, "path.json")
        playbook = os.path.join(folder, "playbook.json")
        with open(playbook, "w", encoding="utf-8") as file:
            json.dump(_PLAYBOOK, file)
        author = ("-c", "user.name=You", "-c", "user.email=you@example.org")
        subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
        subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "Start"], cwd=repository, check=True)
        child = [sys.executable, os.path.abspath(__file__), "--record", output]
        arguments = ["run", "write hello.txt", "--agent", f"playbook:{playbook}"]
        environment = {**os.environ, "HOLDFAST_HOME": os.path.join(folder, "home")}
        ended = subprocess.run(
            [*child, *arguments], cwd=repository, env=environment, capture_output=True, text=True, check=False
        )
        if not os.path.exists(output):
            sys.exit(f"call_path: the run sent no prompt (exit code {ended.returncode}):\n{ended.stderr}")
        with open(output, encoding="utf-8") as file:
            data: dict[str, Any] = json.load(file)
    return data


def table(path: list[Call]) -> str:
    """One line for each call; a file is named where the path enters it."""
    width = max(len(call.function) for call in path)
    lines, last = [], None
    for number, call in enumerate(path, 1):
        place = call.file if call.file != last else " " * 4 + "same file"
        lines.append(f"{number:3}  {call.function:{width}}  {place}:{call.line}".rstrip())
        last = call.file
    return "\n".join(lines)


def main() -> int:
    if sys.argv[1:2] == ["--record"]:
        return record(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description="The path of calls from `holdfast run` to the first prompt.")
    parser.add_argument("--json", action="store_true", help="print data")
    parser.add_argument("--check", action="store_true", help="exit 1 when the path is longer than the goal allows")
    options = parser.parse_args()
    data = measure()
    path = [Call(*call) for call in data["path"]]
    files = len({call.file for call in path})
    if options.json:
        data["path"] = [call._asdict() for call in path]
        print(json.dumps({"calls": len(path), "files": files, **data}))
    else:
        print(table(path))
        print(f"\n{len(path)} calls in {files} files (goal: at most {MAX_CALLS} in {MAX_FILES})")
        print(f"entered until then: {data['entered']} functions in {data['entered_files']} files")
    return 1 if options.check and (len(path) > MAX_CALLS or files > MAX_FILES) else 0


if __name__ == "__main__":
    sys.exit(main())

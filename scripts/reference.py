"""Writes docs/reference.md from the program itself: its help, its exit codes, its event types.

And the help of each command into a file of its own, from which `--help` is answered without loading the command.

.venv/bin/python scripts/reference.py            write them
.venv/bin/python scripts/reference.py --check    exit 1 when they are not what would be written
"""

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec

from holdfast.app.cli.main import COMMANDS, HELP_WIDTH, help_file
from holdfast.app.cli.programs.agent import PROGRAMS
from holdfast.core.events import TYPES
from holdfast.leaf import errors

_PYTHON = (3, 11)  # others lay out the same help a little differently
_TARGET = os.path.join(os.path.dirname(__file__), "..", "docs", "reference.md")

Helps = dict[tuple[str, ...], str]  # by the arguments before `--help`


def reference(helps: Helps) -> str:
    return "\n".join(
        (
            "# Reference",
            "",
            "*Made by `scripts/reference.py` from the program itself.*",
            "",
            "## Commands",
            "",
            *_commands(helps),
            "## Exit codes",
            "",
            "The same for every command. A message on stderr says what, why, and what to do next.",
            "",
            *_exit_codes(),
            "",
            "## Events",
            "",
            "The `type` of a line and the fields of its `data`. Unknown types are kept and shown, never acted on.",
            "",
            *_events(),
            "",
        )
    )


def _commands(helps: Helps) -> Iterator[str]:
    for arguments, text in helps.items():
        yield f"### `{' '.join(('holdfast', *arguments))}`"
        yield ""
        yield "```"
        yield text
        yield "```"
        yield ""


def _help(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": str(HELP_WIDTH), "NO_COLOR": "1"}
    environment.pop("HOLDFAST_HOME", None)
    command = [sys.executable, "-m", "holdfast", *arguments, "--help"]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.rstrip()


def _exit_codes() -> Iterator[str]:
    yield "```"
    yield from (inspect.getdoc(errors) or "").split("\n\n")[1].splitlines()
    yield f"(success)                     {errors.EXIT_OK}  ok"
    yield f"(Ctrl-C)                    {errors.EXIT_INTERRUPTED}  interrupted"
    yield "```"


def _events() -> Iterator[str]:
    yield "| type | data | |"
    yield "|---|---|---|"
    for name, kind in TYPES.items():
        fields = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(kind))
        about = " ".join((kind.__doc__ or "").split()) if kind.__doc__ and "__doc__" in vars(kind) else ""
        yield f"| `{name}` | {fields} | {about} |"


def main() -> int:
    if sys.version_info[:2] != _PYTHON:
        print(f"reference: not checked, it quotes the argparse of Python {_PYTHON}", file=sys.stderr)
        return 0
    asked = ((), *((name,) for name in COMMANDS), *(("agent", name) for name in PROGRAMS))
    helps = {arguments: _help(*arguments) for arguments in asked}
    files = {_TARGET: reference(helps), **{help_file(name): f"{helps[name,]}\n" for name in COMMANDS}}
    if "--check" not in sys.argv[1:]:
        for path, text in files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return 0
    stale = [os.path.relpath(path) for path, text in files.items() if _content(path) != text]
    for path in stale:
        print(f"{path} is stale: run scripts/reference.py", file=sys.stderr)
    return 1 if stale else 0


def _content(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())

"""`completion`: what a shell offers, asked of the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.app.cli.main import COMMANDS
from holdfast.app.cli.setup.command_list import CompletionValue, describe_commands
from tests.cli.program import Program
from tests.cli.runs import DONE, make_run

RUNS = ["auth-abc234", "billing-abc234"]


@pytest.fixture(autouse=True)
def _runs(holdfast: Program) -> None:
    for name in RUNS:
        make_run(holdfast.home, name, DONE)


def offered(holdfast: Program, tmp_path: Path, shell: str, typed: str) -> list[str]:
    """What a shell offers for the last word of a line."""
    script = tmp_path / "script"
    script.write_text(holdfast("completion", shell).out, encoding="utf-8")
    program = tmp_path / "holdfast"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    if shell == "bash":
        words = typed.split(" ")
        code = f"source {script}; COMP_WORDS=({' '.join(word or chr(39) * 2 for word in words)}); "
        code += f"COMP_CWORD={len(words) - 1}; _holdfast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    else:
        code = f"source {script}; complete -C '{typed}'"
    environment = holdfast.environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    done = subprocess.run([shell, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stderr == ""
    return sorted(line.split("\t")[0] for line in done.stdout.splitlines() if line)


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("holdfast sh", ["show"]),
        ("holdfast show a", ["auth-abc234"]),
        ("holdfast logs ", RUNS),
        ("holdfast logs --fo", ["--follow"]),
        ("holdfast logs --type task.co", ["task.committed", "task.completed"]),
        ("holdfast salvage re", ["restore"]),
        ("holdfast config pa", ["path"]),
        ("holdfast completion z", ["zsh"]),
    ],
)
def test_a_shell_offers_what_fits(holdfast: Program, tmp_path: Path, shell: str, typed: str, words: list[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert offered(holdfast, tmp_path, shell, typed) == words


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_the_script_for_zsh_can_be_read_by_it(holdfast: Program, tmp_path: Path) -> None:
    script = tmp_path / "_holdfast"
    script.write_text(holdfast("completion", "zsh").out, encoding="utf-8")
    subprocess.run(["zsh", "-f", "-n", str(script)], check=True)


def test_every_command_says_what_it_takes() -> None:
    commands = {command.name: command for command in describe_commands()}
    assert list(commands) == list(COMMANDS)
    for command in commands.values():
        assert ("--json",) in [option.names for option in command.options], command.name
    assert commands["diff"].positionals[0] == CompletionValue(runs=True)
    output = next(option for option in commands["export"].options if "--output" in option.names)
    assert output.value == CompletionValue(files=True)


def test_names_that_a_shell_would_act_on_are_not_offered(holdfast: Program) -> None:
    make_run(holdfast.home, "evil$(touch pwned)-abc234", DONE)
    assert sorted(holdfast("completion", "--runs").lines) == RUNS


def test_it_is_data_for_programs_too(holdfast: Program) -> None:
    assert holdfast("completion", "bash", "--json").object["script"] == holdfast("completion", "bash").out
    assert "name a shell:" in holdfast("completion", code=2).complaint

"""The command blocks of the README and of docs/ are executed as they are written, each page in a repository of its own.

The agents are playbooks. Blocks that cannot be executed say why, and are counted.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.shell_session import RunningCommand, ShellSession
from tests.docs.command_blocks import CommandBlock, command_blocks

ROOT = Path(__file__).parents[2]
GENERATED = {"reference.md"}  # the programs' own help
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED)]
EXECUTED = [page for page in PAGES if any(block.not_run is None for block in command_blocks(page)[0])]
MAX_NOT_RUN = 30

_PLAYBOOK = """\
turns:
  - when: submit_verdict
    steps:
      - mcp: {tool: submit_verdict, arguments: {accept: true}}
  - when: submit_case
    steps:
      - run: date +%N >> work.txt
      - mcp:
          tool: submit_case
          arguments: {summary: Done., criteria: [{criterion: works, met: true, evidence: I looked}]}
otherwise:
  - run: date +%N >> work.txt
  - say: Done.
"""


def test_every_command_block_is_executed_or_says_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    blocks, unfenced = [], []
    for page in PAGES:
        of_page, looks_like_commands = command_blocks(page)
        blocks += of_page
        unfenced += looks_like_commands
    assert unfenced == [], "commands that are not fenced as sh or console"
    skipped = [block for block in blocks if block.not_run is not None]
    lines = [f"  {block.place:24} {block.not_run}" for block in skipped]
    counts = f"{len(blocks)} command blocks: {len(blocks) - len(skipped)} executed, {len(skipped)} not run:"
    with capsys.disabled():
        sys.stdout.write("\n".join(["", counts, *lines, ""]))
    assert len(skipped) <= MAX_NOT_RUN


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.stem)
def test_commands_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    shell = _shell(tmp_path)
    with ExitStack() as still_running:
        left: list[RunningCommand] = []
        for block in command_blocks(page)[0]:
            if block.not_run is None:
                _execute(shell, block, tmp_path, still_running, left)
        for running in left:
            running.finish(None)


def _execute(
    shell: ShellSession, block: CommandBlock, scratch: Path, still_running: ExitStack, left: list[RunningCommand]
) -> None:
    running = still_running.enter_context(shell.start(block.commands.replace("/tmp/", f"{scratch}/")))
    for text, keys in block.press:
        running.wait_for(text)
        running.type(keys)
    if block.leave is not None:
        running.wait_for(block.leave)
        left.append(running)
    else:
        running.finish()


def _shell(folder: Path) -> ShellSession:
    home, project, programs = folder / "home", folder / "project", folder / "bin"
    for place in (home, project, programs, home / ".config" / "holdfast"):
        place.mkdir(parents=True, exist_ok=True)
    (programs / "holdfast").symlink_to(Path(sys.executable).with_name("holdfast"))
    (folder / "agent.yaml").write_text(_PLAYBOOK)
    (home / ".config" / "holdfast" / "config.toml").write_text(f'agent = "playbook:{folder}/agent.yaml"\n')
    environment = {
        "PATH": os.pathsep.join((str(programs), os.environ["PATH"])),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    (project / "words.py").write_text("def count(text):\n    return len(text.split())\n")
    for command in (
        "git config --global user.name 'A. User'",
        "git config --global user.email user@example.org",
        "git -c init.defaultBranch=main init --quiet .",
        "git add --all",
        "git commit --quiet --message Begin",
    ):
        subprocess.run(command, shell=True, cwd=project, env=environment, check=True)
    return ShellSession(str(project), environment)

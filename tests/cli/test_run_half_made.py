"""A worktree whose making is killed is made anew, and nothing of it is saved as if it were somebody's work."""

from pathlib import Path

from tests.support.cli_stage import HELLO, Stage

DYING = """#!/bin/sh
if [ -e {flag} ]; then
    rm {flag}
    making=$(cut -d' ' -f4 /proc/$PPID/stat)
    runner=$(cut -d' ' -f4 /proc/$making/stat)
    kill -9 $runner $making $PPID
fi
exec cat
"""


def test_a_worktree_whose_checkout_is_killed_leaves_no_salvage(stage: Stage) -> None:
    flag, smudge = Path(stage.folder, "flag"), Path(stage.folder, "smudge")
    smudge.write_text(DYING.format(flag=flag), encoding="utf-8")
    smudge.chmod(0o755)
    text = "".join(f"{number}\n" for number in range(50_000))
    files = {f"m{number}.txt": f"{number} {text}" for number in range(3)} | {"z.bin": "last\n"}
    stage.project.commit({".gitattributes": "*.bin filter=dying\n", **files}, "Many")
    stage.project.git("config", "filter.dying.smudge", str(smudge))
    stage.project.git("config", "filter.dying.clean", "cat")
    agent = stage.book(HELLO)
    run = stage.holdfast("plan", "say hello", "--agent", agent, "--json").object["run"]
    flag.touch()
    stage.holdfast("resume", run, "--json", code=-9, cold=True)
    assert not flag.exists()
    stage.resume(run)
    assert stage.file(run, "hello.txt") == "hello"
    assert stage.project.salvage() == []

"""Facts of validators at work: real processes, bounded in time and memory, and nothing of them is left."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holdfast.core.config.settings import Validators
from holdfast.engine.checks.validators import (
    MAX_OUTPUT_BYTES,
    CheckPlace,
    ValidatorOutcome,
    run_validators,
    validators_for,
)
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.workflows.validators import CheckCommand
from tests.agents.company import is_alive, resident
from tests.support.wait import until


@pytest.fixture
def cwd(tmp_path: Path) -> str:
    return str(tmp_path)


def line(text: str, limit: float = 60) -> CheckCommand:
    return CheckCommand(text, ("/bin/sh", "-c", text), limit)


async def run(cwd: str, *commands: CheckCommand | str) -> list[ValidatorOutcome]:
    heard: list[ValidatorOutcome] = []

    async def on_done(outcome: ValidatorOutcome) -> None:
        heard.append(outcome)

    wanted = [line(command) if isinstance(command, str) else command for command in commands]
    outcomes = await run_validators(wanted, CheckPlace(cwd, f"run of {cwd}"), on_done)
    assert heard == outcomes
    assert marked_processes(RUN_MARK, f"run of {cwd}") == []
    return outcomes


def put(cwd: str, name: str, text: str, mode: int = 0o644) -> None:
    path = Path(cwd, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


async def test_each_is_run_in_the_worktree_and_told_in_order(cwd: str) -> None:
    first, second, third = await run(cwd, "pwd", "echo no >&2; exit 3", "kill -SEGV $$")
    assert first[:3] == ("pwd", True, 0)
    assert first.output == f"{os.path.realpath(cwd)}\n"
    assert first.problem is None
    assert second[1:3] == (False, 3)
    assert (second.output, second.problem) == ("no\n", "it exited with code 3")
    assert third[1:3] == (False, -11)
    assert third.problem == "it was killed by SIGSEGV"


async def test_one_that_fails_and_then_passes_is_flaky_and_no_failure(cwd: str) -> None:
    (outcome,) = await run(cwd, "test -e there && echo good || { touch there; echo bad; exit 1; }")
    assert (outcome.passed, outcome.flaky, outcome.exit_code) == (True, True, 0)
    assert outcome.output == "bad\n"
    assert outcome.problem == "flaky: it exited with code 1, and passed when it was run again"


async def test_one_that_fails_is_run_twice_and_one_that_passes_once(cwd: str) -> None:
    failed, passed = await run(cwd, "echo x >> failed; exit 1", "echo x >> passed")
    assert (failed.passed, passed.passed) == (False, True)
    assert Path(cwd, "failed").read_text() == "x\nx\n"
    assert Path(cwd, "passed").read_text() == "x\n"


async def test_one_that_hangs_is_ended_with_all_that_it_started_and_is_not_run_again(cwd: str) -> None:
    script = "echo $$ >> pids; setsid sleep 1000 & echo $! >> pids; echo begun; sleep 1000"
    (outcome,) = await run(cwd, line(script, limit=0.5))
    assert (outcome.passed, outcome.exit_code, outcome.output) == (False, None, "begun\n")
    assert outcome.problem == "it took longer than 0.5 s and was killed"
    pids = [int(line) for line in Path(cwd, "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)


async def test_a_daemon_that_holds_the_pipe_is_not_waited_for_and_does_not_stay(cwd: str) -> None:
    daemon = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        open('pid', 'w').write(str(os.getpid()))\n"
        "        time.sleep(1000)\n"
        "    os._exit(0)\n"
        "while not (os.path.exists('pid') and open('pid').read()): pass\n"
        "print('done')\n"
    )
    (outcome,) = await run(cwd, CheckCommand("daemon", (sys.executable, "-c", daemon)))
    assert (outcome.passed, outcome.output) == (True, "done\n")
    assert not is_alive(int(Path(cwd, "pid").read_text()))


async def test_a_flood_is_bounded_in_memory_and_keeps_its_beginning_and_its_end(cwd: str) -> None:
    before = resident()
    (outcome,) = await run(cwd, "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert outcome.passed
    assert outcome.output.startswith("first\nxxx")
    assert outcome.output.endswith("xxx\nlast\n")
    assert "bytes left out" in outcome.output
    assert len(outcome.output) < MAX_OUTPUT_BYTES + 100
    assert resident() - before < 30_000_000


async def test_output_is_cut_between_characters_and_what_is_no_text_is_replaced(cwd: str) -> None:
    put(cwd, "flood.py", f"import sys; sys.stdout.buffer.write('x€'.encode() * {MAX_OUTPUT_BYTES})")
    flood, noise = await run(
        cwd, CheckCommand("flood", (sys.executable, "flood.py")), line("printf 'a\\377b\\000c\\303'")
    )
    assert "\N{REPLACEMENT CHARACTER}" not in flood.output
    assert noise.output == "a\N{REPLACEMENT CHARACTER}b\0c\N{REPLACEMENT CHARACTER}"


async def test_what_is_not_there_or_cannot_be_started_is_told(cwd: str) -> None:
    put(cwd, "broken", "\x7fELF", 0o755)
    absent, broken, script = await run(
        cwd,
        CheckCommand("x", ("no-such-program", "check")),
        CheckCommand("y", (os.path.join(cwd, "broken"),)),
        "no-such-program check",
    )
    assert absent == ValidatorOutcome(
        "x",
        False,
        None,
        0.0,
        problem="no-such-program is not an executable program; install it, or add it to PATH",
    )
    assert not broken.passed
    assert "cannot start" in str(broken.problem)
    assert script.problem == "it exited with code 127: a command in it was not found"
    with pytest.raises(BadInput, match="nothing can be validated in it"):
        await run(os.path.join(cwd, "gone"), "true")


async def test_no_secret_reaches_a_validator_and_it_has_no_input(cwd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody-1")
    monkeypatch.setenv("PLAIN", "plain")
    (outcome,) = await run(cwd, "cat; env")
    assert "sk-of-nobody" not in outcome.output
    assert "PLAIN=plain" in outcome.output
    assert f"{RUN_MARK}=run of {cwd}" in outcome.output


async def test_when_it_is_cancelled_nothing_stays_alive(cwd: str) -> None:
    script = "echo $$ >> pids; (setsid sleep 1000 & echo $! >> pids); echo ready > ready; sleep 1000"
    work = asyncio.create_task(run(cwd, script))
    await until(lambda: Path(cwd, "ready").exists())
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not any(is_alive(int(line)) for line in Path(cwd, "pids").read_text().split())
    assert marked_processes(RUN_MARK, f"run of {cwd}") == []


async def test_what_went_elsewhere_without_a_trace_is_dead_when_it_has_ended(cwd: str, tmp_path: Path) -> None:
    script = f"setsid -w sh -c 'cd /; env -i sleep 1000 & echo $! > {cwd}/pid'"

    async def unheard(_: ValidatorOutcome) -> None:
        assert not is_alive(int(Path(cwd, "pid").read_text()))

    place = CheckPlace(cwd, f"run of {cwd}", fd_marker=os.fspath(tmp_path / "tether"))
    (outcome,) = await run_validators([line(script)], place, unheard)
    assert outcome.passed


async def test_a_path_is_one_in_the_worktree(cwd: str) -> None:
    put(cwd, "scripts/check", "#!/bin/sh\necho checked\n", 0o755)
    put(cwd, "scripts/text", "not a program")
    found, absent, text = await run(
        cwd,
        CheckCommand("a", ("./scripts/check",)),
        CheckCommand("b", ("scripts/gone",)),
        CheckCommand("c", ("scripts/text",)),
    )
    assert (found.passed, found.output) == (True, "checked\n")
    assert "scripts/gone is not an executable program" in str(absent.problem)
    assert "scripts/text is not an executable program" in str(text.problem)


async def test_an_exit_code_that_is_fine_is_told_and_passes(cwd: str) -> None:
    (outcome,) = await run(cwd, line("exit 5")._replace(fine={5: "no tests were found"}))
    assert (outcome.passed, outcome.exit_code, outcome.problem) == (True, 5, "no tests were found")


async def test_a_real_project_is_validated_by_its_own_code_and_programs(
    cwd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is installed elsewhere, as by `pip install -e` in the user's checkout, is not what is tested."""
    put(cwd, "elsewhere/thing.py", "RIGHT = False")
    monkeypatch.setenv("PYTHONPATH", os.path.join(cwd, "elsewhere"))
    put(cwd, "tree/src/thing.py", "RIGHT = True")
    put(cwd, "tree/setup.py", "")
    put(cwd, "tree/tests/unit/test_thing.py", "import thing\ndef test_it(): assert thing.RIGHT\n")
    put(cwd, "tree/.venv/bin/pytest", f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n', 0o755)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    tree = os.path.join(cwd, "tree")
    commands = await validators_for(CheckPlace(tree, "run"), Validators())
    assert [command.name for command in commands] == ["pytest"]
    (outcome,) = await run(tree, *commands)
    assert outcome.passed, outcome.output
    assert "1 passed" in outcome.output
    assert "__pycache__" not in os.listdir(os.path.join(tree, "tests", "unit"))


async def test_finding_follows_no_link_out_of_the_worktree_and_waits_for_no_pipe(cwd: str) -> None:
    put(cwd, "outside.toml", "[tool.ruff]\n")
    put(cwd, "tree/.venv/bin/ruff", "", 0o755)
    tree = Path(cwd, "tree")
    here = CheckPlace(str(tree), "run")
    (tree / "pyproject.toml").symlink_to("../outside.toml")
    os.mkfifo(tree / "package.json")
    (tree / "tests").symlink_to("/")
    assert await validators_for(here, Validators()) == ()
    (tree / "pyproject.toml").unlink()
    put(str(tree), "pyproject.toml", "[tool.ruff]\n")
    assert [command.name for command in await validators_for(here, Validators())] == ["ruff"]
    assert await validators_for(here, Validators(detect=False)) == ()

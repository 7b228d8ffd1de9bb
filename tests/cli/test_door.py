"""The door of the program: help, wrong usage, exit codes, and streams that are closed, full or gone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast import __version__
from holdfast.app.cli import main
from tests.cli.foreign import SEED_LOG, put
from tests.cli.program import UNPRIVILEGED, Outcome, Program, assert_no_noise
from tests.cli.runs import DONE, make_run
from tests.support.cli_stage import HELLO, Stage
from tests.support.wait import PATIENCE

COMMANDS = tuple(main.COMMANDS)

RUN = "auth-abc234"


@pytest.fixture
def run(holdfast: Program) -> str:
    return make_run(holdfast.home, RUN, DONE)


def test_help_names_every_command_and_every_exit_code(holdfast: Program) -> None:
    outcome = holdfast("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.out
    for code in ("0 ok", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130 interrupted"):
        assert code in outcome.out
    assert holdfast.home in outcome.out, "where things are"
    assert outcome.err == ""


@pytest.mark.parametrize("arguments", [(), ("-h",), ("help",)])
def test_help_comes_also_when_one_asks_otherwise(holdfast: Program, arguments: tuple[str, ...]) -> None:
    assert holdfast(*arguments) == holdfast("--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_teaches_by_examples(holdfast: Program, command: str) -> None:
    out = holdfast(command, "--help").out
    assert out.startswith(f"usage: holdfast {command} ")
    examples = out.partition("\nexamples:\n")[2].splitlines()
    assert len(examples) >= 2
    assert all(line.startswith(f"  holdfast {command}") for line in examples)
    assert "--json" in out


_ASK_ALL = """\
import sys
from holdfast.app.cli import main
for command in main.COMMANDS:
    assert main.main([command, "--help"]) == 0
loaded = {"argparse", "asyncio", "msgspec", "json", "re", "typing"} & sys.modules.keys()
loaded |= {name for name in sys.modules if name.startswith(("holdfast.engine", "holdfast.store", "holdfast.core"))}
assert not loaded, loaded
"""


def test_the_help_of_a_command_is_there_without_loading_the_command() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", _ASK_ALL], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: holdfast ") == len(COMMANDS)


_ASK_ONE = """\
import sys
from holdfast.app.cli import main
code = main.main(sys.argv[1:])
heavy = ("acp", "pydantic", "rich", "yaml", "holdfast.agents", "holdfast.git", "holdfast.workflows")
loaded = [name for name in sys.modules if name.startswith(heavy)]
assert not loaded, loaded
sys.exit(code)
"""


@pytest.mark.parametrize("arguments", [("show",), ("logs",), ("send", "words"), ("approve",), ("stop",)], ids=" ".join)
def test_what_looks_at_a_run_or_leaves_it_a_message_loads_no_agents_git_or_yaml(
    holdfast: Program, run: str, arguments: tuple[str, ...]
) -> None:
    command, *rest = arguments
    done = subprocess.run(
        [sys.executable, "-c", _ASK_ONE, command, run, *rest],
        env=holdfast.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Error" not in done.stderr
    assert done.returncode in (0, 4)


_TRY_EACH = """\
import sys
from holdfast.app.cli import main
for command in main.COMMANDS:
    if command not in ("agent", "agents", "doctor", "demo", "mcp", "selftest", "top", "watch"):
        main.main([command, "nothing-of-this-name"])
        assert "holdfast.agents.acp.driver" not in sys.modules, command
"""


def test_nothing_but_a_runner_loads_what_speaks_to_agents(holdfast: Program) -> None:
    """It takes longer to load than all else together."""
    done = subprocess.run(
        [sys.executable, "-c", _TRY_EACH],
        env=holdfast.environment(),
        cwd=holdfast.cwd,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nothing-of-this-name") > 10, done.stderr


_SELDOM = (  # needed by few runs: with notifications, exports, phases, task lists, files in prompts, a cluster
    "holdfast.app.cli.live.cluster",
    "holdfast.app.html",
    "holdfast.app.tui",
    "holdfast.app.web",
    "holdfast.engine.commands.cluster",
    "holdfast.engine.commands.create",
    "holdfast.engine.http_post",
    "holdfast.engine.notify",
    "holdfast.engine.session.phase_steps",
    "holdfast.engine.telemetry",
    "holdfast.store.postgres.store",
    "holdfast.workflows.tasklists",
    "html",
    "pathlib",
    "yaml",
)


def test_a_runner_of_a_plain_run_loads_nothing_that_few_runs_need(stage: Stage) -> None:
    run = stage.holdfast("plan", "Add a file", "--agent", stage.book(HELLO), "--json").objects[-1]["run"]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "holdfast", "resume", run, "--quiet"],
        env=stage.holdfast.environment(),
        cwd=stage.holdfast.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "holdfast.agents.acp.driver" in loaded
    assert not loaded.intersection(_SELDOM)


def test_whoever_sets_columns_has_the_help_laid_out_anew(holdfast: Program) -> None:
    wide, narrow = holdfast("logs", "--help"), holdfast("logs", "--help", env={"COLUMNS": "50"})
    assert len(narrow.lines) > len(wide.lines)
    assert narrow.out.partition("\nexamples:")[2] == wide.out.partition("\nexamples:")[2]


def test_help_fits_on_a_terminal_of_80_columns(holdfast: Program) -> None:
    assert max(map(len, holdfast("--help", env={"HOLDFAST_HOME": "/home/me/holdfast"}).lines)) <= 80
    description = holdfast("merge", "--help", env={"COLUMNS": "80"}).out.partition("\npositional")[0]
    assert max(map(len, description.splitlines())) <= 80


def test_help_fits_on_a_terminal_of_120_columns(holdfast: Program) -> None:
    for arguments in (("--help",), *((command, "--help") for command in ("logs", "analyze"))):
        assert max(map(len, holdfast(*arguments, env={"HOLDFAST_HOME": "/home/me/holdfast"}).lines)) <= 120


def test_version(holdfast: Program) -> None:
    assert holdfast("--version").out == f"holdfast {__version__}\n"


@pytest.mark.parametrize("command", ["frobnicate", "--frobnicate", "", "LS", "\udcff", "main"])
def test_an_unknown_command_is_bad_usage_and_the_known_are_named(holdfast: Program, command: str) -> None:
    complaint = holdfast(command, code=2).complaint
    assert complaint.startswith("unknown command ")
    assert complaint.endswith("list the commands with: holdfast --help")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "--frobnicate"),
        ("ls", "extra"),
        ("ls", "--js"),
        ("ls", "--search"),
        ("stop",),
        ("logs", "a", "--type"),
    ],
)
def test_wrong_arguments_are_bad_usage_in_one_line(holdfast: Program, arguments: tuple[str, ...]) -> None:
    assert holdfast(*arguments, code=2).complaint.endswith(f"; see: holdfast {arguments[0]} --help")


def test_it_starts_from_any_folder_also_one_that_was_removed(holdfast: Program, run: str) -> None:
    gone = os.path.join(holdfast.cwd, "gone")
    os.mkdir(gone)
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -P -m holdfast show {RUN}"
    done = subprocess.run(["sh", "-c", script], env=holdfast.environment(), capture_output=True, check=True)
    assert done.stdout.decode().startswith(RUN)


# Streams

ALL = [("--version",), ("ls", "--help"), ("ls",), ("logs", RUN, "--json"), ("analyze", RUN)]

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def in_shell(holdfast: Program, redirection: str, *arguments: str, **env: str) -> Outcome:
    """With its streams as a shell sets them up."""
    script = f'exec "$@" {redirection}'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "holdfast", *arguments]
    environment = holdfast.environment(env)
    done = subprocess.run(
        command, env=environment, cwd=holdfast.cwd, capture_output=True, check=False, timeout=PATIENCE
    )
    outcome = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert_no_noise(outcome)
    return outcome


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_a_full_disk_behind_stdout_is_told_in_one_line(holdfast: Program, run: str, arguments: tuple[str, ...]) -> None:
    outcome = in_shell(holdfast, "> /dev/full", *arguments)
    assert outcome.code == 1
    assert outcome.complaint == "stdout: No space left on device"


@pytest.mark.parametrize("arguments", [("ls",), ("logs", RUN, "--json")], ids=" ".join)
def test_the_same_holds_without_a_buffer(holdfast: Program, run: str, arguments: tuple[str, ...]) -> None:
    outcome = in_shell(holdfast, "> /dev/full", *arguments, PYTHONUNBUFFERED="1")
    assert (outcome.code, len(outcome.err.splitlines())) == (1, 1)


@pytest.mark.parametrize("arguments", ALL[1:3], ids=" ".join)
def test_a_closed_stdout_is_told_in_one_line(holdfast: Program, run: str, arguments: tuple[str, ...]) -> None:
    outcome = in_shell(holdfast, ">&-", *arguments)
    assert outcome.code == 1
    assert outcome.complaint == "stdout is closed"


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_other_streams_may_be_closed_or_full(holdfast: Program, run: str, redirection: str) -> None:
    outcome = in_shell(holdfast, redirection, "show", RUN)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(RUN)
    assert in_shell(holdfast, redirection, "show", "nobody").code == 4, "the code tells, where nothing else can"
    assert in_shell(holdfast, redirection, "frobnicate").code == 2


def test_with_every_stream_closed_only_the_code_tells(holdfast: Program, run: str) -> None:
    assert in_shell(holdfast, "<&- >&- 2>&-", "ls") == (1, "", "")


@pytest.mark.parametrize("arguments", [("ls", "--help"), ("analyze", RUN)], ids=" ".join)
@pytest.mark.parametrize("env", [{}, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_a_reader_that_never_reads_is_no_error(
    holdfast: Program, run: str, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    with gone_reader() as pipe, holdfast.start(*arguments, stdout=pipe, env=env) as process:
        _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")


@contextmanager
def gone_reader() -> Iterator[int]:
    """The writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


# Exit codes


def test_every_exit_code_that_can_be_reached_so_far(holdfast: Program, run: str) -> None:
    """3 (timed out), 5 (owned) and 6 (a decision is needed) belong to commands that are still to come."""
    broken = put(holdfast.cwd, "broken.jsonl", log=SEED_LOG + b"noise\n")
    holdfast("ls", code=0)
    holdfast("verify", broken, code=1)
    holdfast("stop", code=2)
    holdfast("show", "nobody", code=4)
    with holdfast.start("logs", "-f", RUN) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_a_log_that_fails_while_it_is_read_is_one_line(holdfast: Program, run: str) -> None:
    path = os.path.join(holdfast.home, "runs", RUN, "events.jsonl")
    os.chmod(path, 0)
    for command in ("show", "logs", "verify"):
        complaint = holdfast(command, RUN, unprivileged=True, code=1).complaint
        assert complaint == f"{path}: Permission denied"


def test_modes_are_obeyed_in_these_tests(holdfast: Program) -> None:
    path = put(holdfast.cwd, "secret", log=b"")
    os.chmod(path, 0)
    opening = [sys.executable, UNPRIVILEGED, "-c", f"open({path!r})"]
    assert b"PermissionError" in subprocess.run(opening, capture_output=True, check=False).stderr

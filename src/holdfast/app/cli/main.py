"""The entry point: finds the command, runs it, and turns every error into one line and an exit code.

Imports only what the requested command needs, so that `--help` and `ls` start about as fast as Python. The help of a
command is in a file, which `scripts/reference.py` generates from its parser.
"""

import os
import sys

from holdfast import __version__
from holdfast.leaf.errors import EXIT_INTERRUPTED, EXIT_OK, BadInput, HoldfastError
from holdfast.leaf.importing import NoCollection

COMMANDS = {
    "run": "run coding agents on a repository",
    "resume": "continue a run where it stopped",
    "plan": "prepare a run without starting it",
    "chat": "talk with an agent at the terminal",
    "adopt": "continue a session that another tool began",
    "send": "send a message to a run's agent",
    "accept": "accept the work of a chat: check, commit and merge it",
    "approve": "allow what an agent or a phase requests",
    "deny": "refuse what an agent or a phase requests",
    "stop": "stop a run cleanly",
    "wait": "wait until a run stops",
    "watch": "resume runs that a crash or a reboot interrupted",
    "serve": "the page in your browser: all runs, with an API for programs",
    "ls": "list runs and their status",
    "top": "dashboard: all runs on one screen, with keys to attend to them",
    "show": "show one run: tasks, sessions, checkpoint, next step",
    "logs": "print a run's events, or follow them (-f)",
    "attach": "watch a run live; Ctrl-C detaches, the run continues",
    "export": "export a run as one HTML file",
    "analyze": "explain an interrupted log, and how to resume it",
    "verify": "prove that a log is intact: its chain, its order, each line",
    "diff": "show what a run, or one of its tasks, changed",
    "merge": "merge a run's work into one of your branches",
    "push": "push a run's branch to a remote, never by force",
    "pr": "open a pull request for a run, once",
    "import": "continue a run of another machine, from its bundle",
    "fork": "create a run with the past of another, up to a point",
    "rewind": "take a run back to an earlier point: conversation, files and plan",
    "archive": "delete a run's worktrees and branches, keep its log",
    "prune": "shrink archived runs: compress, withhold transcripts, delete",
    "reset": "delete a run: its worktrees, branches and folder",
    "salvage": "list, show and restore work saved before a destructive step",
    "doctor": "find what a crash left behind; --fix repairs it",
    "selftest": "test this disk: syncs, locks, and killed runs",
    "agents": "list agents, and probe what each can do",
    "workflow": "list, draw and check workflows",
    "preferences": "list, accept and refuse what agents propose for later runs",
    "notify": "try where notifications go; see what is not delivered",
    "init": "find agents and checks, and write the config",
    "config": "show settings and their origins; init, path, trust, schema",
    "mcp": "serve the tools with which an agent reports to its run",
    "agent": "run an agent that comes with Holdfast: builtin, playbook",
    "demo": "kill an agent and a runner, resume, and lose nothing",
    "worker": "run runs of the cluster on this machine; drain ends one",
    "workers": "list the workers of the cluster, and what each runs",
    "completion": "print a completion script for your shell",
}

GROUPS = {
    "work": ("run", "resume", "plan", "adopt", "import", "fork", "watch", "demo"),
    "attend": ("serve", "attach", "chat", "send", "accept", "approve", "deny", "stop", "wait"),
    "inspect": ("top", "ls", "show", "logs", "analyze", "verify", "export", "diff", "workers"),
    "publish": ("merge", "push", "pr"),
    "maintain": ("rewind", "archive", "prune", "reset", "salvage", "doctor", "selftest"),
    "setup": ("init", "config", "notify", "completion", "preferences", "workflow", "agents"),
    "programs": ("agent", "mcp", "worker"),
}

_ENDED_BY_PYTHON = (
    "agent",
    "chat",
    "demo",
    "selftest",
    "serve",
    "top",
    "watch",
    "worker",
)  # their libraries and threads clean up

_HELP = """\
holdfast runs coding agents on a git repository and survives every crash.

usage: holdfast COMMAND [options]   (holdfast COMMAND --help explains a command)

commands:
{commands}

RUN is an id, the start of an id, or a slug. Every command takes --json.
Data goes to stdout, everything else to stderr.
HOLDFAST_HOME is the folder of all runs ({home}).

exit codes: 0 ok · 1 the work failed · 2 invalid usage or input · 3 timed out
            4 no such run, nothing to do · 5 owned by a live process, or denied
            6 a decision is needed · 130 interrupted
"""

HELP_WIDTH = 100  # columns of the help files


def entry() -> None:
    """The `holdfast` program."""
    code = main(sys.argv[1:])
    if sys.argv[1:2] and sys.argv[1] not in _ENDED_BY_PYTHON:
        os._exit(code)  # everything is written, and Python would take long to forget all that is loaded
    sys.exit(code)


def main(arguments: list[str]) -> int:
    if sys.stderr is None:  # closed, as 2>&- does
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the program runs
    if sys.stdout is None:
        return _print_error("stdout is closed", HoldfastError.exit_code)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _run(arguments)
    finally:
        for name in ("stdout", "stderr"):
            _is_closed(name)  # a buffer must not fail later, when nothing can catch the error


def _run(arguments: list[str]) -> int:
    try:
        if "HOLDFAST_CRASH" in os.environ:
            _arm_failpoints()
        code = _dispatch(arguments)
        sys.stdout.flush()
    except HoldfastError as error:
        for line in error.lines:
            _print_error(line, error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output ended, as `head` does
        return EXIT_OK
    except OSError as error:
        subject = error.filename or ("stdout" if _is_closed("stdout") else "the system")
        return _print_error(f"{subject}: {error.strerror}", HoldfastError.exit_code)
    except Exception as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        return _print_error(
            f"a bug in Holdfast: {error!r}; nothing is lost. Set HOLDFAST_DEBUG=1 for a traceback",
            HoldfastError.exit_code,
        )
    return code


def _arm_failpoints() -> None:
    """Arm the failpoints of a crash test, with a line on stderr so that it is never silent."""
    from holdfast.leaf.failpoints import arm_failpoints

    armed = arm_failpoints()
    if armed is not None:
        sys.stderr.write(f"holdfast: HOLDFAST_CRASH is on: {armed}\n")


def _is_closed(name: str) -> bool:
    """Whether a stream accepts no more output; discards what it did not accept."""
    stream = getattr(sys, name)
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return True
    return False


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return EXIT_OK
    name, *rest = arguments
    if name == "--version":
        sys.stdout.write(f"holdfast {__version__}\n")
        return EXIT_OK
    if (problem := platform_problem(sys.platform)) is not None:
        raise BadInput(problem)
    if name not in COMMANDS:
        raise BadInput(f"unknown command {name!r}{_suggestion(name)}; list the commands with: holdfast --help")
    if rest in (["-h"], ["--help"]) and _is_wide() and os.path.exists(help_file(name)):
        with open(help_file(name), encoding="utf-8") as file:
            sys.stdout.write(file.read())
        return EXIT_OK
    _restore_sigchld()
    with NoCollection():
        module = __import__(module_of(name), fromlist=["run"])
    try:
        code: int = module.run(rest)
    except SystemExit as exit_:  # argparse, after --help
        return int(exit_.code or EXIT_OK)
    return code


def platform_problem(platform: str) -> str | None:
    """Locks, file watching and process ownership use the Linux kernel, and nothing was tested elsewhere."""
    if platform == "linux":
        return None
    return (
        f"Holdfast runs on Linux, and this system is {platform}: nothing was tested here. "
        "Run it in a Linux machine, a container, or WSL 2; docs/decisions/0006-linux-first.md has the reasons"
    )


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    return "".join(f" (did you mean {match!r}?)" for match in get_close_matches(name, COMMANDS, n=1))


def module_of(command: str) -> str:
    """Return the module of a command: one file each, in the folder of its group."""
    group = next(group for group, commands in GROUPS.items() if command in commands)
    return f"holdfast.app.cli.{group}.{command}{'_' if command == 'import' else ''}"  # a word of Python's


def _restore_sigchld() -> None:
    """A parent that ignores SIGCHLD passes that on; then no exit code of a child would ever be known."""
    try:
        import _signal as signal  # type: ignore[import-not-found]  # without enums, which take long to load
    except ImportError:
        import signal

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def help_file(command: str) -> str:
    return os.path.join(os.path.dirname(__file__), "help", f"{command}.txt")


def _is_wide() -> bool:
    """Whether the help files fit the terminal. If COLUMNS is set, the parser formats the help instead."""
    if "COLUMNS" in os.environ:
        return False
    try:
        return os.get_terminal_size().columns >= HELP_WIDTH
    except OSError:  # no terminal
        return True


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {about}" for name, about in COMMANDS.items())
    home = os.environ.get("HOLDFAST_HOME") or "~/.local/share/holdfast"
    return _HELP.format(commands=commands, home=home)


def _print_error(message: str, code: int) -> int:
    from holdfast.app.text.screen import fold_line, printable

    line = f"holdfast: {printable(' '.join(message.split()))}"  # git's output may contain anything
    try:  # noqa: SIM105 - contextlib would cost start-up time
        sys.stderr.write(f"{fold_line(line, sys.stderr)}\n")
    except OSError:
        pass  # stderr is gone; the exit code remains
    return code

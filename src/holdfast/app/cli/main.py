"""The door: finds the command, runs it, and turns whatever goes wrong into one clear line and an exit code.

Loads nothing that the asked-for command does not need; `--help` and `ls` start about as fast as Python. The help of
a command is in a file, which `scripts/reference.py` makes of its parser.
"""

import os
import sys

from holdfast import __version__
from holdfast.leaf.errors import INTERRUPTED, OK, BadInput, HoldfastError

COMMANDS = {
    "run": "agents at work on a repository",
    "resume": "go on with a run from where it stood",
    "plan": "make a run ready, and do not begin it",
    "send": "words for an agent of a run",
    "approve": "let an agent do what it asks to do",
    "deny": "refuse what an agent asks to do",
    "stop": "ask a run to stop cleanly",
    "wait": "until a run is no longer at work",
    "watch": "bring back runs that a crash or a reboot cut off",
    "ls": "the runs there are, and how each stands",
    "top": "all runs on one screen, what they need of you, and keys to give it",
    "show": "one run: its tasks, sessions, checkpoint, and how it would go on",
    "logs": "a run's events, as they were or as they come (-f)",
    "attach": "watch a run at work; Ctrl-C detaches, and the run goes on",
    "export": "a run as one HTML file, to read and to hand on",
    "analyze": "what an interrupted log left behind, and how to resume it",
    "verify": "proof that a log is whole: chain, order, no torn or doubled line",
    "diff": "what a run, or one task of it, changed",
    "merge": "a run's work into a branch of yours",
    "push": "a run's branch to a remote, never by force",
    "pr": "a pull request for a run, opened once",
    "archive": "keep a run's log and drop its worktrees and branches",
    "reset": "take a run away, in the repository and at home",
    "salvage": "what was saved before something forceful: ls, show, restore",
    "doctor": "what a crash left behind, explained; --fix repairs it",
    "selftest": "whether this disk keeps its promises: syncs, locks, and runs that are killed",
    "agents": "the agents we know, and what each was seen to do",
    "workflow": "how runs go about their work: ls, show (drawn), check a file of yours",
    "preferences": "what agents propose for later runs: ls, accept, refuse",
    "config": "what is set, and where each value came from: init, path, trust, schema",
    "mcp": "the tools by which an agent reports to its run",
    "agent": "an agent that comes with Holdfast, as a program: builtin, playbook",
    "demo": "agents killed in mid-turn, a runner in mid-merge, and nothing lost",
    "completion": "a script that completes commands, options and run names in your shell",
}

GROUPS = {
    "work": ("run", "resume", "plan", "watch", "demo"),
    "attend": ("attach", "send", "approve", "deny", "stop", "wait"),
    "inspect": ("top", "ls", "show", "logs", "analyze", "verify", "export", "diff"),
    "publish": ("merge", "push", "pr"),
    "maintain": ("archive", "reset", "salvage", "doctor", "selftest"),
    "setup": ("config", "completion", "preferences", "workflow", "agents"),
    "programs": ("agent", "mcp"),
}

_HELP = """\
holdfast runs coding agents on a git repository, and survives anything.

usage: holdfast COMMAND [options]      (holdfast COMMAND --help explains one)

commands:
{commands}

Runs are named by id, by the beginning of it, or by slug. Every command takes --json.
stdout is data, stderr is decoration. HOLDFAST_HOME moves everything ({home}).

exit codes: 0 ok · 1 the work failed · 2 bad usage or input · 3 timed out · 4 no such run / nothing to do
            5 owned by a live process or denied · 6 a decision is needed · 130 interrupted
"""

HELP_WIDTH = 100  # columns, of the help that is in files


def entry() -> None:
    """The `holdfast` program."""
    code = main(sys.argv[1:])
    if sys.argv[1:] == ["ls"]:  # all is written and closed: to take Python apart would be a tenth of the whole time
        os._exit(code)
    sys.exit(code)


def main(arguments: list[str]) -> int:
    if sys.stderr is None:  # closed, as 2>&- does
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the program runs
    if sys.stdout is None:
        return _complain("stdout is closed: there is nowhere to write to", HoldfastError.exit_code)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return _run(arguments)
    finally:
        for name in ("stdout", "stderr"):
            _is_lost(name)  # what is left in a buffer must not fail later, when nobody can catch it


def _run(arguments: list[str]) -> int:
    try:
        if "HOLDFAST_CRASH" in os.environ:
            _doom()
        code = _dispatch(arguments)
        sys.stdout.flush()
    except HoldfastError as error:
        for line in error.lines:
            _complain(line, error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        return OK
    except OSError as error:
        what = error.filename or ("stdout" if _is_lost("stdout") else "the system")
        return _complain(f"{what}: {error.strerror}", HoldfastError.exit_code)
    except Exception as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        return _complain(
            f"a defect of Holdfast: {error!r}; nothing was lost. HOLDFAST_DEBUG=1 shows where",
            HoldfastError.exit_code,
        )
    return code


def _doom() -> None:
    """Somebody tests what becomes of us when we die; never in silence."""
    from holdfast.leaf.failpoints import arm

    doom = arm()
    if doom is not None:
        sys.stderr.write(f"holdfast: HOLDFAST_CRASH is on: {doom}\n")


def _is_lost(name: str) -> bool:
    """True when a stream takes no more; what it did not take is thrown away."""
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
        return OK
    name, *rest = arguments
    if name == "--version":
        sys.stdout.write(f"holdfast {__version__}\n")
        return OK
    if name not in COMMANDS:
        raise BadInput(f"there is no command {name!r}; the commands are {', '.join(COMMANDS)}")
    if rest in (["-h"], ["--help"]) and _is_wide() and os.path.exists(help_file(name)):
        with open(help_file(name), encoding="utf-8") as file:
            sys.stdout.write(file.read())
        return OK
    _see_children_end()
    module = __import__(module_of(name), fromlist=["run"])
    try:
        code: int = module.run(rest)
    except SystemExit as leave:  # argparse, after --help
        return int(leave.code or OK)
    return code


def module_of(command: str) -> str:
    """The module that implements a command: one file each, in the folder of its group."""
    group = next(group for group, commands in GROUPS.items() if command in commands)
    return f"holdfast.app.cli.{group}.{command}"


def _see_children_end() -> None:
    """Whoever started us may ignore SIGCHLD, and so may we then: no exit code of a child would ever be known."""
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def help_file(command: str) -> str:
    return os.path.join(os.path.dirname(__file__), "help", f"{command}.txt")


def _is_wide() -> bool:
    """Whether the help that is in files fits. Whoever sets COLUMNS has it laid out anew."""
    if "COLUMNS" in os.environ:
        return False
    try:
        return os.get_terminal_size().columns >= HELP_WIDTH
    except OSError:  # no terminal
        return True


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items())
    home = os.environ.get("HOLDFAST_HOME") or "~/.local/share/holdfast"
    return _HELP.format(commands=commands, home=home)


def _complain(message: str, code: int) -> int:
    from holdfast.app.text.screen import plain

    try:  # noqa: SIM105 - contextlib would cost start-up time
        sys.stderr.write(f"holdfast: {plain(' '.join(message.split()))}\n")  # git's words may hold anything
    except OSError:
        pass  # nobody can be told; the code tells
    return code

"""`holdfast run`: agents at work on a repository, from the first prompt to the last merge."""

import asyncio
import os
import sys
import time

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.cli.live.run_session import add_options, flags_of, move
from holdfast.app.text.screen import plain, warn
from holdfast.engine.commands.create import Wanted, prepare
from holdfast.engine.commands.github_issue import goal_of_issue
from holdfast.engine.config.config import load
from holdfast.engine.places import default_home
from holdfast.engine.queries.resumable import left_behind, prepared
from holdfast.leaf.errors import BadInput, NothingToDo

_EXAMPLES = """\
  holdfast run "add OAuth login"
  holdfast run --workflow loop tasks/             worker, validators and evaluator over a list of tasks
  holdfast run --workflow waves plan.yaml --parallel 4
  holdfast run --workflow pipeline "users can log in with OAuth" --with product_management
  holdfast run --workflow pipeline --issue 42
  holdfast run "fix the flaky test" --agent codex --detach
  holdfast run                                    the run that `holdfast plan` prepared here"""

_HEADS_UP = 5  # seconds in which a person can think again


def run(arguments: list[str]) -> int:
    parser = Parser(
        "run",
        "Run coding agents on a git repository, in worktrees and branches of their own. Ctrl-C stops cleanly;\n"
        "whatever dies, `holdfast resume` goes on from where it stood.",
        _EXAMPLES,
    )
    parser.add_argument("goal", type=words, nargs="?", metavar="GOAL|PATH", help="what is to be done, or a task list")
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: here)")
    parser.add_argument(
        "--workflow", type=words, metavar="NAME", help="solo, loop, waves, pipeline, or a file of your own"
    )
    parser.add_argument("--with", action="append", default=[], dest="phases", metavar="PHASE", help="an optional phase")
    parser.add_argument("--issue", type=int, metavar="N", help="the goal is this issue of the repository on GitHub")
    parser.add_argument("--name", type=words, metavar="SLUG", help="what the run is called")
    parser.add_argument("--base", type=words, metavar="BRANCH", help="where it begins (default: what is checked out)")
    add_options(parser)
    options = parser.parse_args(arguments)
    home = default_home()
    flags = flags_of(options)
    if options.workflow is not None:
        flags["workflow"] = options.workflow
    if options.issue is not None:
        options.goal = _goal_of_issue(options.repo, options.issue, options.goal)
    warn(load(options.repo, home=home, flags=flags).warnings)
    if options.goal is None:
        run_id = _prepared(home, options.repo)
    else:
        _warn_of_others(home, options.repo)
        phases, issue = tuple(options.phases), options.issue
        wanted = Wanted(options.goal, options.repo, options.name, options.base, flags, phases=phases, issue=issue)
        run_id = asyncio.run(prepare(home, wanted))
        flags = {}
    return move(home, run_id, lambda _: None, flags, options)


def _goal_of_issue(folder: str, number: int, more: str | None) -> str:
    """With what else is said of it."""
    goal = asyncio.run(goal_of_issue(folder, number))
    return f"{goal}\n\n{more}" if more is not None else goal


def _prepared(home: str, folder: str) -> str:
    found = prepared(home, folder)
    if not found:
        raise NothingToDo("no run is prepared here; say what to do: holdfast run GOAL, or holdfast plan GOAL first")
    if len(found) > 1:
        names = ", ".join(run.id for run in found)
        raise BadInput(f"several runs are prepared here ({names}); start one with holdfast resume RUN")
    return found[0].id


def _warn_of_others(home: str, folder: str) -> None:
    """A new run beside one that could go on may be what is wanted, or a slip."""
    others = left_behind(home, folder)
    if not others:
        return
    for other in others[:3]:
        goal = plain(other.summary.goal or "")
        sys.stderr.write(f"holdfast: {other.id} ({other.status}) can go on here: {goal}\n")
    sys.stderr.write(f"  holdfast resume {others[0].id}    goes on with it\n")
    sys.stderr.write(f"  holdfast reset {others[0].id}     takes it away\n")
    if sys.stderr.isatty() and sys.stdin.isatty() and not os.environ.get("CI"):
        sys.stderr.write(f"A new run begins in {_HEADS_UP} s; Ctrl-C to think again.\n")
        sys.stderr.flush()
        time.sleep(_HEADS_UP)

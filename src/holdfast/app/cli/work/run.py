"""`holdfast run`: run agents on a repository, from the first prompt to the last merge."""

import argparse
import asyncio
import os
import sys
import time

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.cli.live.cluster import submit_and_show
from holdfast.app.cli.live.run_session import SessionChoice, add_options, flags_from_options, run_and_show
from holdfast.app.cli.work.uncommitted import warn_of_changes
from holdfast.app.text.screen import printable, status_text, warn
from holdfast.engine.commands.create import RunRequest, check_task_list, prepare_run
from holdfast.engine.commands.github_issue import goal_of_issue
from holdfast.engine.home import Home
from holdfast.engine.queries.resumable import planned_runs, started_runs
from holdfast.engine.queries.setup.settings import load_config
from holdfast.leaf.errors import BadInput, NothingToDo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.commands.cluster.engine_address import EngineAddress

_EXAMPLES = """\
  holdfast run "add OAuth login"
  holdfast run --workflow loop tasks/             worker, validators and evaluator for each task of a list
  holdfast run --workflow waves plan.yaml --parallel 4
  holdfast run --workflow pipeline "users can log in with OAuth" --with product_management
  holdfast run --workflow pipeline --issue 42
  holdfast run "fix the flaky test" --agent codex --detach
  holdfast run "train the model" --on cluster --needs gpu
  holdfast run                                    start the run that `holdfast plan` prepared here"""

_CANCEL_DELAY_S = 5  # in which a person can cancel


def run(arguments: list[str]) -> int:
    parser = Parser(
        "run",
        "Run coding agents on a git repository, in their own worktrees and branches. Ctrl-C stops cleanly. After any\n"
        "crash, `holdfast resume` continues where the run stopped.",
        _EXAMPLES,
    )
    parser.add_argument("goal", type=utf8_text, nargs="?", metavar="GOAL|PATH", help="the goal, or a task list")
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: here)")
    parser.add_argument(
        "--workflow", type=utf8_text, metavar="NAME", help="solo, chat, loop, waves, pipeline, or your own file"
    )
    parser.add_argument(
        "--with", action="append", default=[], dest="phases", metavar="PHASE", help="include an optional phase"
    )
    parser.add_argument("--issue", type=int, metavar="N", help="take the goal from this GitHub issue")
    parser.add_argument("--name", type=utf8_text, metavar="SLUG", help="the name of the run")
    parser.add_argument(
        "--base",
        type=utf8_text,
        metavar="BRANCH|COMMIT",
        help="the branch or commit to start from (default: the checked-out branch)",
    )
    parser.add_argument(
        "--include-changes", action="store_true", help="start with the uncommitted files of your checkout, too"
    )
    parser.add_argument(
        "--on", choices=["cluster"], help="where: a worker of the cluster runs it (default: this machine, now)"
    )
    parser.add_argument(
        "--needs", type=utf8_text, metavar="LABEL", help="with --on cluster: a worker with this label runs it"
    )
    add_options(parser)
    options = parser.parse_args(arguments)
    home = Home()
    home.check_writable()
    engine = _check_placement(home, options)
    if options.goal is not None and options.agent is None:
        _initialize_first_use(home, options)
    flags = flags_from_options(options)
    if options.workflow is not None:
        flags["workflow"] = options.workflow
    if options.issue is not None:
        options.goal = _goal_of_issue(options.repo, options.issue, options.goal)
    warn(load_config(options.repo, home=home, flags=flags).warnings)
    if options.goal is None:
        run_id = _planned_run(home, options.repo)
    else:
        phases, issue = tuple(options.phases), options.issue
        request = RunRequest(
            options.goal,
            options.repo,
            options.name,
            options.base,
            flags,
            phases=phases,
            issue=issue,
            include_changes=options.include_changes,
            on_cluster=engine is not None,
            needs=(options.needs,) if options.needs is not None else (),
        )
        _warn_of_resumable_runs(home, request)
        run_id = asyncio.run(prepare_run(home, request))
        if not options.include_changes:
            asyncio.run(warn_of_changes(options.repo))
        flags = {}
    if engine is not None:
        return submit_and_show(home, run_id, options, engine=engine)
    return run_and_show(home, run_id, SessionChoice(lambda _: None), flags, options)


def _check_placement(home: Home, options: argparse.Namespace) -> "EngineAddress | None":
    """Return the cluster's engine; None for a run of this machine. Raises before anything is created."""
    if options.on is None:
        if options.needs is not None:
            raise BadInput("--needs is for runs on the cluster; add --on cluster")
        return None
    if options.goal is None and options.issue is None:
        raise BadInput("--on cluster needs a goal; a run that is prepared on this machine stays here")
    from holdfast.engine.commands.cluster.engine_address import chosen_engine, require_cluster_store

    require_cluster_store(home)
    return chosen_engine(home)


def _initialize_first_use(home: Home, options: argparse.Namespace) -> None:
    """Ask on a terminal, before the first run without any configuration, what `holdfast init` asks."""
    is_asked_for_less = options.detach or options.quiet or options.json or os.environ.get("CI")
    if is_asked_for_less or os.path.exists(home.config_file) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if load_config(options.repo, home=home).origins["agent"].layer != "built-in" or "agent" in str(options.set):
        return
    from holdfast.app.cli.setup.init import initialize  # only the first run needs it

    sys.stderr.write("There is no configuration yet. Some questions first; Ctrl-C cancels.\n")
    asked = {"agent": None, "check": [], "setup": [], "user_only": False, "yes": False, "repo": options.repo}
    initialize(home, argparse.Namespace(**asked, model=options.model))


def _goal_of_issue(folder: str, number: int, extra_text: str | None) -> str:
    """Return the issue's text, followed by the text from the command line."""
    goal = asyncio.run(goal_of_issue(folder, number))
    return f"{goal}\n\n{extra_text}" if extra_text is not None else goal


def _planned_run(home: Home, folder: str) -> str:
    found = asyncio.run(planned_runs(home, folder))
    if not found:
        raise NothingToDo("no run is prepared here; pass a goal: holdfast run GOAL")
    if len(found) > 1:
        names = ", ".join(run.id for run in found)
        raise BadInput(f"several runs are prepared here ({names}); start one with: holdfast resume RUN")
    return found[0].id


def _warn_of_resumable_runs(home: Home, request: RunRequest) -> None:
    """Starting a new run beside an unfinished one may be a mistake: say so, and wait on a terminal."""
    others = asyncio.run(started_runs(home, request.repo))
    if not others:
        return
    check_task_list(home, request)  # nobody should wait for an error
    for other in others[:3]:
        goal = printable(other.summary.goal or "")
        sys.stderr.write(f"holdfast: {other.id} ({status_text(other.status)}) is not finished here: {goal}\n")
    sys.stderr.write(f"  holdfast resume {others[0].id}    continues it\n")
    sys.stderr.write(f"  holdfast reset {others[0].id}     deletes it\n")
    if sys.stderr.isatty() and sys.stdin.isatty() and not os.environ.get("CI"):
        sys.stderr.write(f"Starting a new run in {_CANCEL_DELAY_S} s; Ctrl-C to cancel.\n")
        sys.stderr.flush()
        time.sleep(_CANCEL_DELAY_S)

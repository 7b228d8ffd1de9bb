"""`holdfast resume`: continue a run where it stopped."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.live.on_issue import add_on_issue, ask_choice, ask_line, is_terminal, print_choice_warning
from holdfast.app.cli.live.run_session import SessionChoice, add_options, flags_from_options, run_and_show
from holdfast.app.cli.named_run import print_chosen
from holdfast.app.text.screen import printable, status_text, warn
from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import ResumeCase, ResumeChoice, ResumeDecision, given_choice, is_choice_due
from holdfast.core.run_status import RunStatus
from holdfast.engine.commands.detach import resume_options
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, end_of_log, view_run
from holdfast.engine.queries.placement import is_cluster_run
from holdfast.engine.queries.runs import ListedRun
from holdfast.engine.queries.setup.run_settings import ResumeSettings, resume_settings
from holdfast.leaf.errors import DecisionNeeded, NothingToDo, PositionMismatch

_EXAMPLES = """\
  holdfast resume                          the run of this repository; asks if there are several
  holdfast resume auth-system
  holdfast resume auth-system --on-issue retry     failed tasks continue with their work and their agent
  holdfast resume auth-system --on-issue restart   they start again: new branch, new agent; the old work is saved
  holdfast resume auth-system --instructions "use the old schema; do not change the tests\""""

_MAX_RUNS_LISTED = 20  # offered at once


def run(arguments: list[str]) -> int:
    parser = Parser(
        "resume",
        "Continue a run: nothing is lost and nothing is done twice. If tasks failed or an issue is open, resume asks\n"
        "how to continue; --on-issue answers in advance.",
        _EXAMPLES,
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="id, start of an id, slug, or folder")
    parser.add_argument(
        "--anywhere", action="store_true", help="without RUN: also take runs of other repositories, newest first"
    )
    parser.add_argument(
        "--now", action="store_true", help="send prompts now, even if the provider's usage limit has not reset"
    )
    parser.add_argument(
        "--expect", type=int, metavar="POSITION", help="refuse when the log does not end there, as seen by a program"
    )
    add_on_issue(parser)
    add_options(parser)
    options = parser.parse_args(arguments)
    home = Home()
    run_id = _choose_run(home, options)
    view = asyncio.run(view_run(home, run_id))
    settings = resume_settings(home, view.state)
    chosen = _choose_how(home, view, settings, options)
    runner_options = [*(resume_options(chosen) if chosen is not None else []), *(["--now"] if options.now else [])]
    if is_cluster_run(view.state):
        from holdfast.app.cli.live.cluster import submit_and_show

        if options.expect not in (None, asyncio.run(end_of_log(home, run_id))):
            raise PositionMismatch(f"run {run_id} went on since you looked; look again, then choose")
        return submit_and_show(home, run_id, options, *runner_options)
    runner_options += [f"--expect={options.expect}"] if options.expect is not None else []

    def choose(analysis: Analysis) -> ResumeChoice | None:
        """The run may have ended or died since it was looked at: what was given holds for it as it is now."""
        return chosen if chosen is not None else _given_choice(analysis.decision, settings, options)

    return run_and_show(
        home, run_id, SessionChoice(choose, runner_options, view.state), flags_from_options(options), options
    )


def _choose_run(home: Home, options: argparse.Namespace) -> str:
    if options.run is not None:
        return home.run_id_at(options.run) or home.find_run(options.run)
    from holdfast.engine.queries.resumable import find_resumable_runs

    runs = asyncio.run(find_resumable_runs(home, os.getcwd()))
    found = runs.here or (runs.elsewhere if options.anywhere else [])
    if not found and runs.elsewhere:
        _list_elsewhere(runs.elsewhere, as_json=options.json)
        raise DecisionNeeded(
            f"this repository has no run to resume; name a run of another repository (holdfast resume "
            f"{runs.elsewhere[0].id}), or take the newest run of any repository: holdfast resume --anywhere"
        )
    if not found:
        raise NothingToDo("no run to resume; list the runs with: holdfast ls")
    if len(found) == 1 or not is_terminal():
        print_chosen(found[0])
        return found[0].id
    shown = found[:_MAX_RUNS_LISTED]
    for number, candidate in enumerate(shown, start=1):
        sys.stderr.write(
            f"  {number}. {candidate.id}  {status_text(candidate.status)}  {printable(candidate.summary.goal or '')}\n"
        )
    while True:
        answer = ask_line(f"Which run? [1-{len(shown)}, default 1] ") or "1"
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1].id
        sys.stderr.write(f"{printable(answer)!r} is not a number from 1 to {len(shown)}\n")


def _list_elsewhere(runs: Sequence[ListedRun], *, as_json: bool) -> None:
    """Print the runs of other repositories: as JSON, or with the command that resumes each."""
    for run in runs:
        if as_json:
            summary = run.summary
            print(json.dumps({"run": run.id, "status": run.status, "repo": summary.repo, "goal": summary.goal}))
    for run in runs[:_MAX_RUNS_LISTED] if not as_json else ():
        sys.stderr.write(
            f"  holdfast resume {run.id}  {status_text(run.status)}  {printable(run.summary.repo or '')}\n"
        )


def _choose_how(
    home: Home, view: RunView, settings: ResumeSettings, options: argparse.Namespace
) -> ResumeChoice | None:
    """Ask before anything is started, so that Ctrl-C at the question changes nothing."""
    warn(settings.warnings)
    if not (options.quiet or options.json) and view.status != RunStatus.RUNNING:
        from holdfast.app.text.digest import format_digest
        from holdfast.engine.queries.digest import digest_of

        for line in format_digest(asyncio.run(digest_of(home, view.run_id, view=view)), view.run_id):
            sys.stderr.write(f"{line}\n")
    decision = view.analysis.decision
    if view.status == RunStatus.RUNNING or decision.case is ResumeCase.COMPLETE:
        return None
    chosen = _given_choice(decision, settings, options)
    if not is_choice_due(decision, options.on_issue):
        return chosen
    if chosen is not None:
        print_choice_warning(decision, chosen)
    elif is_terminal() and not options.json:
        chosen = ask_choice(view)
    return chosen


def _given_choice(
    decision: ResumeDecision, settings: ResumeSettings, options: argparse.Namespace
) -> ResumeChoice | None:
    default = settings.on_issue if options.instructions is None else None
    return given_choice(decision, on_issue=options.on_issue, instructions=options.instructions, default=default)

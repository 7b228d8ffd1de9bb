"""`holdfast resume`: go on with a run from where it stood."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.live.on_issue import add_on_issue, ask_choice, ask_line, is_terminal, warn_of
from holdfast.app.cli.live.run_session import add_options, flags_of, move
from holdfast.app.text.digest import told_digest
from holdfast.app.text.screen import plain, warn
from holdfast.core.decide.resume import Case, ResumeChoice, choice_of
from holdfast.engine.commands.detach import as_options
from holdfast.engine.config.of_run import on_issue_of, warnings_of
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, run_of
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.resumable import resumable
from holdfast.engine.queries.runs import ListedRun
from holdfast.leaf.errors import DecisionNeeded, NothingToDo

_EXAMPLES = """\
  holdfast resume                          the run of this repository; a list, when there are several
  holdfast resume auth-system
  holdfast resume auth-system --on-issue retry     failed tasks go on with the work and the agent they had
  holdfast resume auth-system --on-issue restart   they begin again: new branch, new agent; the old work is saved
  holdfast resume auth-system --instructions "use the old schema, and leave the tests alone\""""

_LISTED = 20  # runs that are offered at once


def run(arguments: list[str]) -> int:
    parser = Parser(
        "resume",
        "Go on with a run: nothing is lost and nothing is done twice. Where something went wrong, you are asked how\n"
        "to go on; --on-issue answers beforehand.",
        _EXAMPLES,
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="id, beginning of an id, slug, or folder")
    parser.add_argument(
        "--anywhere", action="store_true", help="without RUN: also runs of other repositories, the newest first"
    )
    add_on_issue(parser)
    add_options(parser)
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = _meant(home, options)
    chosen = _choice(home, run_id, options)
    passed_on = as_options(chosen) if chosen is not None else []
    return move(home, run_id, lambda _: chosen, flags_of(options), options, passed_on)


def _meant(home: str, options: argparse.Namespace) -> str:
    if options.run is not None:
        return run_of(home, options.run) or find_run(home, options.run)
    runs = resumable(home, os.getcwd())
    found = runs.here or (runs.elsewhere if options.anywhere else [])
    if not found and runs.elsewhere:
        _list_elsewhere(runs.elsewhere, as_json=options.json)
        raise DecisionNeeded(
            f"no run of this repository can be resumed; name one of another repository (holdfast resume "
            f"{runs.elsewhere[0].id}), or take the newest of any with: holdfast resume --anywhere"
        )
    if not found:
        raise NothingToDo("there is no run to resume; `holdfast ls` lists those there are")
    if len(found) == 1 or not is_terminal():
        return found[0].id
    shown = found[:_LISTED]
    for number, candidate in enumerate(shown, start=1):
        sys.stderr.write(f"  {number}. {candidate.id}  {candidate.status}  {plain(candidate.summary.goal or '')}\n")
    while True:
        answer = ask_line(f"Which one? [1-{len(shown)}, enter for 1] ") or "1"
        if answer.isdecimal() and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1].id
        sys.stderr.write(f"{plain(answer)!r} is none of the numbers\n")


def _list_elsewhere(runs: Sequence[ListedRun], *, as_json: bool) -> None:
    """The runs of other repositories: as data for scripts, and for people with the command that resumes each."""
    for run in runs:
        if as_json:
            summary = run.summary
            print(json.dumps({"run": run.id, "status": run.status, "repo": summary.repo, "goal": summary.goal}))
    for run in runs[:_LISTED] if not as_json else ():
        sys.stderr.write(f"  holdfast resume {run.id}  {run.status}  {plain(run.summary.repo or '')}\n")


def _choice(home: str, run_id: str, options: argparse.Namespace) -> ResumeChoice | None:
    """Asked for before anything is started, so that Ctrl-C at the question is only that."""
    view = asyncio.run(view_run(home, run_id))
    warn(warnings_of(home, view.state))
    if not (options.quiet or options.json) and view.status != "running":
        for line in told_digest(asyncio.run(digest_of(home, run_id, view=view)), run_id):
            sys.stderr.write(f"{line}\n")
    decision = view.analysis.decision
    if view.status == "running" or decision.case is Case.COMPLETE:
        return None
    if decision.case in (Case.AUTO, Case.WAITING) and (decision.chosen is None or options.on_issue is None):
        return ResumeChoice(None, options.instructions) if options.instructions is not None else None
    usual = on_issue_of(home, view.state) if options.instructions is None else None
    chosen = choice_of(options.on_issue or usual, options.instructions, decision)
    if chosen is not None:
        warn_of(decision, chosen)
    elif is_terminal() and not options.json:
        chosen = ask_choice(view)
    return chosen

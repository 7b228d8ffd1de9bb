"""`holdfast analyze`: an interrupted log, ours or another tool's, as the Resume Protocol reads it."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.resume_report import report
from holdfast.app.text.screen import plain
from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import Case
from holdfast.core.state import Issue
from holdfast.engine.naming import find_run
from holdfast.engine.places import LOG, default_home, is_owned, log_of, run_of
from holdfast.engine.queries.logs import analyze_log, folders_without_log, interrupted_first, logs_under, view_run
from holdfast.leaf.errors import OK, BadInput, NoSuchRun

_EXAMPLES = """\
  holdfast analyze .claude/progress                 every feature of a project
  holdfast analyze events.jsonl --json | jq .decision
  holdfast analyze auth-system                      a run of ours, by name"""


_TASK = ("status", "summary", "agent", "files", "files_changed", "error", "attempts", "reason")


def run(arguments: list[str]) -> int:
    parser = Parser(
        "analyze",
        "What an interrupted session left behind, and how to go on: by itself, or with which choices.\n"
        "Reads any log in the Resume Protocol's format. Changes nothing.",
        _EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a log, a feature's folder, a .claude/progress, or a run")
    options = parser.parse_args(arguments)
    refused: list[str] = []
    for number, log in enumerate(asyncio.run(interrupted_first(logs_of(options.path)))):
        try:
            analysis = asyncio.run(analyze_log(log))
        except BadInput as error:  # it does not hide the others
            refused.append(str(error))
            continue
        command = _next_command(log, analysis)
        if options.json:
            print(json.dumps({**as_json(analysis), "log": log, "next_command": command}, ensure_ascii=False))
        else:
            print("\n" * bool(number) + report(analysis) + (f"\n\nNext: {command}" if command else ""))
    _name_folders_without_log(options.path, as_json=options.json)
    if refused:
        raise BadInput("; ".join(refused))
    return OK


def _next_command(log: str, analysis: Analysis) -> str | None:
    """For a run of ours."""
    home = default_home()
    run_id = run_of(home, log)
    if run_id is None:
        return None
    if asyncio.run(view_run(home, run_id)).state.is_unmade:
        return f"holdfast reset {run_id}"
    return f"holdfast {'merge' if analysis.decision.case is Case.COMPLETE else 'resume'} {run_id}"


def _name_folders_without_log(path: str, *, as_json: bool) -> None:
    for number, folder in enumerate(folders_without_log(path)):
        if as_json:
            feature = os.path.basename(folder)
            print(json.dumps({"feature": feature, "folder": folder, "log": None, "problem": f"no {LOG}"}))
        else:
            print("\n" * (not number) + f"{plain(folder)} holds no {LOG}: nothing is known of its sessions")


def logs_of(name: str) -> list[str]:
    """The logs that a path or a run's name means."""
    home = default_home()
    if not os.path.exists(name) and os.sep not in name:
        with suppress(NoSuchRun):  # neither: say so about the path
            name = log_of(home, find_run(home, name))
    run_id = run_of(home, name)
    if run_id is not None and is_owned(home, run_id):
        sys.stderr.write(f"{run_id} is at work now: this is how it would resume if it died here\n")
    return logs_under(name)


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis as scripts get it."""
    found: dict[str, Any] = msgspec.to_builtins(analysis)
    found["tasks"] = {name: _of_protocol(task) for name, task in found["tasks"].items()}
    found["active_agents"] = [agent.name for agent in analysis.active_agents]
    found["agents"] = {agent.name: msgspec.to_builtins(agent) for agent in analysis.active_agents}
    found["issues"] = [_issue(issue) for issue in analysis.issues]
    found["warnings"] = [_issue(warning) for warning in analysis.warnings]
    return found


def _issue(issue: Issue) -> dict[str, Any]:
    known = {"agent": issue.agent, "task": issue.task, **issue.detail}
    return {**known, "type": issue.type, "sid": issue.sid, "seq": issue.seq}


def _of_protocol(task: dict[str, Any]) -> dict[str, Any]:
    """What the Resume Protocol knows of a task; `show --json` has the rest."""
    return {key: task[key] for key in _TASK if task[key] is not None}

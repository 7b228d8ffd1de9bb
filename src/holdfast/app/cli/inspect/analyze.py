"""`holdfast analyze`: explain an interrupted log, of Holdfast or of another tool, by the Resume Protocol."""

import asyncio
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.resume_report import format_report
from holdfast.app.text.screen import printable
from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.state import Issue
from holdfast.engine.home import LOG, Home
from holdfast.engine.queries.logs import (
    analyze_log,
    analyze_run,
    folders_without_log,
    interrupted_first,
    logs_under,
    view_run,
)
from holdfast.leaf.errors import EXIT_OK, BadInput, NoSuchRun

if TYPE_CHECKING:
    from holdfast.engine.commands.adopt.base import ForeignSession

_EXAMPLES = """\
  holdfast analyze .claude/progress                 all features of a project
  holdfast analyze events.jsonl --json | jq .decision
  holdfast analyze auth-system                      a run of Holdfast, by name"""


_PROTOCOL_TASK_KEYS = ("status", "summary", "agent", "files", "files_changed", "error", "attempts", "reason")


def run(arguments: list[str]) -> int:
    parser = Parser(
        "analyze",
        "Explain what an interrupted session left behind, and how to continue: without a decision, or with which\n"
        "choices. Reads any log in the Resume Protocol's format, and says of sessions of other tools what\n"
        "`holdfast adopt` would make of them. Changes nothing.",
        _EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a log, a feature's folder, a .claude/progress folder, or a run")
    options = parser.parse_args(arguments)
    from holdfast.engine.commands.adopt.find import foreign_session_at  # `show` imports this module without it

    session = foreign_session_at(options.path)
    if session is not None:
        print(json.dumps(_session_as_json(session)) if options.json else "\n".join(_session_as_text(session)))
        return EXIT_OK
    home, errors = Home(), list[str]()
    run_id = _run_in_database(home, options.path)
    if run_id is not None:
        analysis = asyncio.run(analyze_run(home, run_id))
        _print(analysis, f"{home.place} {run_id}", _next_command(home, run_id, analysis), options.json)
        return EXIT_OK
    for number, log in enumerate(asyncio.run(interrupted_first(logs_of(options.path)))):
        try:
            analysis = asyncio.run(analyze_log(log))
        except BadInput as error:  # continue with the other logs
            errors.append(str(error))
            continue
        if number and not options.json:
            print()
        run_id = home.run_id_at(log)
        if run_id is not None:
            _print(analysis, log, _next_command(home, run_id, analysis), options.json)
        else:
            _print_foreign(analysis, log, options.json)
    _print_folders_without_log(options.path, as_json=options.json)
    if errors:
        raise BadInput("; ".join(errors))
    return EXIT_OK


def _run_in_database(home: Home, name: str) -> str | None:
    """Return the run that is named, where runs are no files; None for a path."""
    if home.store_url is None or os.path.exists(name) or os.sep in name:
        return None
    run_id = home.find_run(name)
    _warn_if_running(home, run_id)
    return run_id


def _print(analysis: Analysis, log: str, command: str | None, as_data: bool) -> None:  # noqa: FBT001 - `--json`
    if as_data:
        print(json.dumps({**as_json(analysis), "log": log, "next_command": command}, ensure_ascii=False))
    else:
        print(format_report(analysis) + (f"\n\nNext: {command}" if command else ""))


def _print_foreign(analysis: Analysis, log: str, as_data: bool) -> None:  # noqa: FBT001 - `--json`
    """The report is the one that the protocol specifies, so what to do next is not a part of it."""
    command = _adopt_command(log) if analysis.decision.case is not ResumeCase.COMPLETE else None
    _print(analysis, log, command if as_data else None, as_data)
    if command is not None and not as_data:
        sys.stderr.write(f"a log of the Resume Protocol; continue it with: {command}\n")


def _session_as_json(session: "ForeignSession") -> dict[str, Any]:
    facts = {"tool": session.tool, "session": session.id, "state": session.state, "goal": session.goal}
    tasks = {task.id: session.task_states.get(task.id, "pending") for task in session.tasks.tasks}
    states = {"tasks": tasks or session.task_states, "next_step": session.next_step, "findings": session.findings}
    return {**facts, **states, "path": session.path, "next_command": _adopt_command(session.path)}


def _session_as_text(session: "ForeignSession") -> list[str]:
    from holdfast.core.work.foreign_tools import TOOL_NAMES

    lines = [f"A session of {TOOL_NAMES[session.tool]}: {session.id} ({session.state})", f"  goal: {session.goal}"]
    lines += [f"  {task}: {state}" for task, state in session.task_states.items()]
    lines += [f"  {finding}" for finding in session.findings]
    lines += [
        f"When it is adopted, `holdfast resume` does this: {session.next_step}.",
        "",
        f"Next: {_adopt_command(session.path)}",
    ]
    return [printable(line) for line in lines]


def _adopt_command(path: str) -> str:
    return f"holdfast adopt {shlex.quote(path)}"


def _next_command(home: Home, run_id: str, analysis: Analysis) -> str:
    """Return the next command for a run of Holdfast."""
    state = asyncio.run(view_run(home, run_id)).state
    if state.is_missing_plan:
        return f"holdfast reset {run_id}"
    if analysis.decision.case is ResumeCase.COMPLETE and state.merged_into() is not None:
        return f"holdfast archive {run_id}"
    return f"holdfast {'merge' if analysis.decision.case is ResumeCase.COMPLETE else 'resume'} {run_id}"


def _print_folders_without_log(path: str, *, as_json: bool) -> None:
    for number, folder in enumerate(folders_without_log(path)):
        if as_json:
            feature = os.path.basename(folder)
            print(json.dumps({"feature": feature, "folder": folder, "log": None, "problem": f"no {LOG}"}))
        else:
            print("\n" * (not number) + f"{printable(folder)} has no {LOG}, so its sessions are unknown")


def logs_of(name: str) -> list[str]:
    """Return the logs at a path, or the log of a run."""
    home = Home()
    if not os.path.exists(name) and os.sep not in name:
        try:
            name = home.log_path(home.find_run(name))
        except NoSuchRun:
            text = f"there is no {name!r}; name a log, a folder with one, or a run (`holdfast ls` lists them)"
            raise NoSuchRun(text) from None
    run_id = home.run_id_at(name)
    if run_id is not None:
        _warn_if_running(home, run_id)
    return logs_under(name)


def _warn_if_running(home: Home, run_id: str) -> None:
    if home.is_owned(run_id):
        sys.stderr.write(f"{run_id} is running: this shows how it would resume if it died now\n")


def as_json(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis for `--json`."""
    result: dict[str, Any] = msgspec.to_builtins(analysis)
    result["tasks"] = {name: _protocol_task(task) for name, task in result["tasks"].items()}
    result["active_agents"] = [agent.name for agent in analysis.active_agents]
    result["agents"] = {agent.name: msgspec.to_builtins(agent) for agent in analysis.active_agents}
    result["issues"] = [_issue_as_json(issue) for issue in analysis.issues]
    result["warnings"] = [_issue_as_json(warning) for warning in analysis.warnings]
    return result


def _issue_as_json(issue: Issue) -> dict[str, Any]:
    fields = {"agent": issue.agent, "task": issue.task, **issue.detail}
    return {**fields, "type": issue.type, "sid": issue.sid, "seq": issue.seq}


def _protocol_task(task: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a task that the Resume Protocol defines; `show --json` has the rest."""
    return {key: task[key] for key in _PROTOCOL_TASK_KEYS if task[key] is not None}

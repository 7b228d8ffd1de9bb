"""`holdfast adopt`: continue a session that another tool began."""

import argparse
import asyncio
import json
import sys
from typing import Any

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.cli.live.run_session import flags_from_options
from holdfast.app.text.screen import pluralize, printable
from holdfast.core.conversation.permission import Policy
from holdfast.core.work.foreign_tools import TOOL_NAMES
from holdfast.engine.commands.adopt.adopt import Adoption, AdoptRequest, adopt
from holdfast.engine.commands.adopt.find import folders_of_repository, sessions_of
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, BadInput, NothingToDo

_EXAMPLES = """\
  holdfast adopt --list                                sessions of other tools for this repository
  holdfast adopt ~/.tilth/sessions/20260115-101500-a1b2c3
  holdfast adopt .agentmux/.sessions/20260115-login --dry-run
  holdfast adopt 5f0c2f5e --as login                   a Claude Code or Codex session, by its id"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "adopt",
        "Make a run from a session of Tilth, AgentMux, the Resume Protocol, Claude Code, Codex or Kandev: its plan\n"
        "and verdicts, its conversations, its branch and uncommitted files. `holdfast resume` then continues it. The\n"
        "other tool's files, folders and branches stay as they are; a session that is still in use is refused.",
        _EXAMPLES,
    )
    parser.add_argument("session", nargs="?", type=utf8_text, metavar="PATH|ID", help="its folder or file, or its id")
    parser.add_argument("--as", dest="name", type=utf8_text, metavar="NAME", help="the name of the run")
    parser.add_argument("--repo", metavar="DIR", help="the repository (default: the session's, else here)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be adopted")
    parser.add_argument("--again", action="store_true", help="also when a run was made of this session before")
    parser.add_argument("--list", action="store_true", help="list the sessions of this repository")
    parser.add_argument("--agent", type=utf8_text, metavar="NAME", help="the agent that continues the work")
    parser.add_argument(
        "--workflow", type=utf8_text, metavar="NAME", help="the workflow (default: the one that fits the session)"
    )
    parser.add_argument(
        "--allow", choices=[policy.value for policy in Policy], help="what agents may do without permission"
    )
    parser.add_argument("--set", type=utf8_text, action="append", default=[], metavar="KEY=VALUE", help="any setting")
    options = parser.parse_args(arguments)
    if options.list:
        return _list_sessions(options)
    if options.session is None:
        raise BadInput("name a session: holdfast adopt PATH|ID; holdfast adopt --list shows those of this repository")
    options.parallel = None
    flags = flags_from_options(options)
    if options.workflow is not None:
        flags["workflow"] = options.workflow
    request = AdoptRequest(options.session, options.repo, options.name, flags, again=options.again)
    adopted = asyncio.run(adopt(Home(), request, dry_run=options.dry_run))
    print(json.dumps(_as_json(adopted), ensure_ascii=False) if options.json else "\n".join(_as_text(adopted)))
    return EXIT_OK


def _list_sessions(options: argparse.Namespace) -> int:
    count = 0
    tops = asyncio.run(folders_of_repository(options.repo or "."))
    for found, session in sessions_of(tops):
        count += 1
        if isinstance(session, str):
            row: dict[str, Any] = {"tool": found.tool, "path": found.path, "problem": session}
            text = f"{TOOL_NAMES[found.tool]:<20} {'unreadable':<20} {found.path}: {session}"
        else:
            row = {"tool": found.tool, "path": found.path, "id": session.id, "state": session.state}
            row |= {"goal": session.goal, "next": session.next_step}
            text = f"{TOOL_NAMES[found.tool]:<20} {session.state:<20} {session.id}  {session.goal}"
        print(json.dumps(row, ensure_ascii=False) if options.json else printable(text))
    if not count:
        raise NothingToDo("no session of another tool was found for this repository")
    if not options.json:
        sys.stderr.write("holdfast adopt ID continues one of them\n")
    return EXIT_OK


def _as_json(adopted: Adoption) -> dict[str, Any]:
    session = adopted.session
    return {
        "run": adopted.run_id,
        "tool": session.tool,
        "version": session.version,
        "session": session.id,
        "path": session.path,
        "state": session.state,
        "goal": session.goal,
        "workflow": session.workflow,
        "repo": adopted.repo,
        "branch": session.branch,
        "commit": adopted.source.tip,
        "tasks": {task.id: session.task_states.get(task.id, "pending") for task in adopted.tasks.tasks},
        "spent": {
            "tokens": session.spent.input_tokens + session.spent.output_tokens,
            "dollars": session.spent.dollars,
        },
        "agents": list(adopted.agents),
        "entries": adopted.entries,
        "next": session.next_step,
        "findings": adopted.findings,
    }


def _as_text(adopted: Adoption) -> list[str]:
    session, tasks = adopted.session, adopted.tasks.tasks
    version = f" ({session.version})" if session.version else ""
    done = sum(session.task_states.get(task.id) in ("done", "complete", "skipped") for task in tasks)
    lines = [
        f"{TOOL_NAMES[session.tool]}{version}, session {session.id}: {session.state}",
        f"  goal      {session.goal}",
        f"  tasks     {done} of {len(tasks)} done",
        f"  work      {session.branch or adopted.source.base_name} at {adopted.source.tip[:12]}",
    ]
    lines += [f"  note      {finding}" for finding in adopted.findings]
    lines.append(f"  resume    {session.next_step}")
    if adopted.run_id is None:
        lines.append("Nothing was changed. Adopt it with the same command without --dry-run")
    else:
        lines.append(
            f"{adopted.run_id}: imported {pluralize(adopted.entries, 'message')} and tool calls of its history"
        )
        command = {"all_done": "merge", "idle": "chat"}.get(session.end_reason, "resume")
        lines.append(f"Next: holdfast {command} {adopted.run_id}")
    return [printable(line) for line in lines]

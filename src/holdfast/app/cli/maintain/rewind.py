"""`holdfast rewind`: take a run back to an earlier point."""

import argparse
import asyncio
import json
import sys

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.confirm import is_confirmed
from holdfast.app.text.rewind import plan_lines
from holdfast.app.text.salvaged import NotConfirmed
from holdfast.app.text.screen import printable
from holdfast.core.events.rewind import RewindAxis
from holdfast.core.work.names import short_point_name
from holdfast.engine.commands.rewind import RewindPlan, RewindRequest, RewindResult, prepare_rewind, rewind_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, Denied

_EXAMPLES = """\
  holdfast rewind auth-system                     take back the newest turn
  holdfast rewind auth-system --to turn-3         to where turn 3 ended; `holdfast show RUN --points` lists the points
  holdfast rewind auth-system --to -2 --dry-run   show what would change, and change nothing
  holdfast rewind auth-system --only files        leave the conversation; the agent is told
  holdfast rewind auth-system --undo              take back the last rewind"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "rewind",
        "Take a run back to an earlier point: its conversation, its worktrees and branches, and its plan together.\n"
        "Nothing is destroyed: the log keeps everything, what the files were is saved, and --undo takes it back. What\n"
        "was pushed or merged into your branches stays there. A run at work is stopped first.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument(
        "--to", metavar="POINT", help="a checkpoint, a turn, an event (SESSION:NUMBER), or -N turns back (default: -1)"
    )
    parser.add_argument("--task", metavar="ID", help="only if nothing but this task went on since")
    parser.add_argument("--only", choices=("files", "conversation"), help="take back one of the two")
    parser.add_argument("--undo", action="store_true", help="take back the last rewind")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, file by file")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    options = parser.parse_args(_with_joined_value(arguments))
    if options.undo and (options.to or options.only or options.task):
        parser.error("--undo takes back the last rewind as it was; leave out --to, --only and --task")
    return asyncio.run(_rewind(options))


def _with_joined_value(arguments: list[str]) -> list[str]:
    """Join `--to -2` into one argument, so that `-2` is not taken for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--to":
            joined[-1] = f"--to={argument}"
        else:
            joined.append(argument)
    return joined


async def _rewind(options: argparse.Namespace) -> int:
    home = Home()
    run_id = home.find_run(options.run)
    axis = RewindAxis(options.only) if options.only else RewindAxis.BOTH
    request = RewindRequest(options.to or "-1", options.task, axis, options.undo)
    prepared = await prepare_rewind(home, run_id, request)
    plan = prepared.plan
    if options.dry_run:
        _print_plan(plan, as_json=options.json)
        return EXIT_OK
    if not options.yes:
        _confirm(plan)
    request = RewindRequest(f"@{plan.position}", options.task, axis, options.undo)  # what was confirmed
    _print_result(plan, await rewind_run(home, run_id, request, prepared), as_json=options.json)
    return EXIT_OK


def _as_json(plan: RewindPlan) -> dict[str, object]:
    return {"id": plan.run_id, **msgspec.to_builtins(plan)}


def _print_plan(plan: RewindPlan, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_as_json(plan), ensure_ascii=False))
    else:
        print("\n".join(plan_lines(plan)))


def _confirm(plan: RewindPlan) -> None:
    for line in plan_lines(plan):
        sys.stderr.write(f"{line}\n")
    if not sys.stdin.isatty():
        raise Denied(f"not a terminal, so {plan.run_id} was not rewound; pass -y to confirm")
    if not is_confirmed(f"Rewind {printable(plan.run_id)} to {printable(short_point_name(plan.point))}"):
        raise NotConfirmed(f"cancelled; {plan.run_id} was not changed")


def _print_result(plan: RewindPlan, result: RewindResult, *, as_json: bool) -> None:
    if as_json:
        done = {"rewound": True, "point": result.point, "position": result.position, "salvaged": list(result.salvaged)}
        print(json.dumps({**_as_json(plan), **done}, ensure_ascii=False))
        return
    print(f"{printable(plan.run_id)}  rewound to {printable(short_point_name(result.point))}")
    for ref in result.salvaged:
        print(f"  saved  {printable(ref)}")
    sys.stderr.write(f"take it back with: holdfast rewind {printable(plan.run_id)} --undo\n")

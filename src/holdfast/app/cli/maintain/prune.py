"""`holdfast prune`: shrink archived runs, by the retention settings or by hand."""

import argparse
import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.maintain.selection import age, for_each, old_runs
from holdfast.app.cli.maintain.undelivered import tell_undelivered
from holdfast.app.text.confirm import is_confirmed
from holdfast.app.text.salvaged import NotConfirmed
from holdfast.app.text.screen import format_bytes, format_time, pluralize, printable
from holdfast.core.config.settings import RetentionSettings
from holdfast.engine.commands.retention.rules import DueStep, age_of, due_steps, retention_settings
from holdfast.engine.commands.retention.steps import RetentionStep, apply_step, is_step_done
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.leaf.errors import EXIT_OK, BadInput, Denied, NothingToDo

_EXAMPLES = """\
  holdfast prune --dry-run                          what the retention settings would do now
  holdfast prune -y                                 do it
  holdfast prune auth-system                        compress the log of one archived run
  holdfast prune --older-than 90d --to transcripts  keep the log, withhold what was said"""
_TEXT = {
    RetentionStep.WORKTREES: "delete the worktrees, and keep the branches",
    RetentionStep.ARCHIVE: "delete worktrees, branches and snapshots",
    RetentionStep.COMPRESS: "compress the log",
    RetentionStep.TRANSCRIPTS: "withhold the messages in the log, and compress it",
    RetentionStep.DELETE: "delete the run, except its summary and the end of its chain",
}
_HARMLESS = (RetentionStep.WORKTREES, RetentionStep.COMPRESS)
_LOSING = (RetentionStep.ARCHIVE, RetentionStep.DELETE)  # messages that no agent has read
_ARCHIVED = "archived"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "prune",
        "Shrink archived runs. Without RUN and --older-than, do what the retention settings say\n"
        "(`holdfast config retention`), which `holdfast watch` and `serve` do by themselves. Compressing loses\n"
        "nothing; every command reads a compressed log. `verify` proves the rest of a log whose messages are\n"
        "withheld. `holdfast show` shows what is left of a deleted run.",
        _EXAMPLES,
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", help="id, start of an id, or slug")
    parser.add_argument("--older-than", type=age, metavar="AGE", help="all archived runs last active before that")
    parser.add_argument(
        "--to",
        choices=[RetentionStep.COMPRESS.value, RetentionStep.TRANSCRIPTS.value, RetentionStep.DELETE.value],
        help="how far, for RUN and --older-than (default: compress)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    options = parser.parse_args(arguments)
    home = Home()
    due = asyncio.run(_due(home, options))
    if not due:
        raise NothingToDo("nothing is due: every run is as small as was asked for")
    for item in due:
        if item.step in _LOSING:
            tell_undelivered(home, item.run.id)
    if options.dry_run:
        for item in due:
            _print(home, item, done=False, as_json=options.json)
        return EXIT_OK
    if not options.yes and any(item.step not in _HARMLESS for item in due):
        _confirm(due)
    steps = {item.run.id: item for item in due}
    return for_each(list(steps), lambda run_id: _apply(home, steps[run_id], as_json=options.json))


async def _due(home: Home, options: argparse.Namespace) -> list[DueStep]:
    if not options.runs and options.older_than is None:
        if options.to is not None:
            raise BadInput("--to needs RUN or --older-than AGE")
        settings = retention_settings(home)
        if settings == RetentionSettings():
            raise BadInput(
                "no retention is set; set one (`holdfast config retention`), or pass RUN or --older-than AGE"
            )
        return await due_steps(home, settings)
    if options.runs and options.older_than is not None:
        raise BadInput("name runs, or pass --older-than AGE, not both")
    step = RetentionStep(options.to or RetentionStep.COMPRESS)
    runs = await _chosen(home, options)
    return [DueStep(run, step, age_of(run)) for run in runs if not await _is_done(home, run.id, step)]


async def _chosen(home: Home, options: argparse.Namespace) -> list[ListedRun]:
    listed = await list_runs(home)
    if options.older_than is not None:
        return [run for run in old_runs(listed, options.older_than) if run.status == _ARCHIVED]
    names = [home.find_run(name) for name in options.runs]
    chosen = [run for run in listed if run.id in names]
    for run in chosen:
        if run.status != _ARCHIVED:
            raise Denied(f"run {run.id} is not archived; archive it first: holdfast archive {run.id}")
    return chosen


async def _is_done(home: Home, run_id: str, step: RetentionStep) -> bool:
    return is_step_done(home, run_id, (await view_run(home, run_id)).state, step)


def _confirm(due: list[DueStep]) -> None:
    for item in due:
        sys.stderr.write(f"  {item.run.id}  {format_time(item.run.summary.updated)[:16]}  {_TEXT[item.step]}\n")
    if not sys.stdin.isatty():
        raise Denied(f"not a terminal, so nothing changed; pass -y to prune {pluralize(len(due), 'run')}")
    if not is_confirmed(f"Prune {pluralize(len(due), 'run')}"):
        raise NotConfirmed("cancelled; nothing changed")


def _apply(home: Home, item: DueStep, *, as_json: bool) -> None:
    before = _log_size(home, item.run.id)
    asyncio.run(apply_step(home, item.run.id, item.step))
    _print(home, item, done=True, as_json=as_json, before=before)


def _log_size(home: Home, run_id: str) -> int:
    compressor = home.log_compressor(run_id)
    return compressor.size() if compressor is not None and home.index.has_run(run_id) else 0


def _print(home: Home, item: DueStep, *, done: bool, as_json: bool, before: int | None = None) -> None:
    run_id = item.run.id
    size = _log_size(home, run_id)
    before = size if before is None else before
    if as_json:
        print(json.dumps({"id": run_id, "step": item.step, "done": done, "bytes_before": before, "bytes": size}))
    elif done:
        print(f"{printable(run_id)}  {item.step}  log {format_bytes(before)} → {format_bytes(size)}")
    else:
        print(f"{printable(run_id)}  {item.step}  would {_TEXT[item.step]} (log {format_bytes(size)})")

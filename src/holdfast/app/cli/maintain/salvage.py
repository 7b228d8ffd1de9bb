"""`holdfast salvage`: list, show and restore work that was saved before a destructive step."""

import argparse
import asyncio
import json
import os
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.listing import all_runs
from holdfast.app.text.diff import print_comparison
from holdfast.app.text.screen import column_widths, format_time, paint, printable
from holdfast.engine.commands.salvage import (
    SalvageEntry,
    find_salvaged,
    list_salvaged,
    repositories_of,
    restore_salvaged,
    salvaged_changes,
)
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast salvage ls
  holdfast salvage show auth-system-k3x9p2/main/5f0c       how it differs from HEAD
  holdfast salvage restore 5f0c --branch rescued           create a branch from it; change nothing else"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "salvage",
        "Before Holdfast deletes a worktree or a branch, or overwrites files, it saves what would be lost under\n"
        "refs/holdfast/salvage in the repository. Looks in the repositories of all runs and in the current one.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "show", "restore"), metavar="ls|show|restore")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a saved entry, or for ls a run; the start of a name is enough"
    )
    parser.add_argument("--repo", metavar="DIR", help="look only in this repository")
    parser.add_argument("--branch", metavar="NAME", help="restore: the branch to create (default: salvaged/…)")
    parser.add_argument("--stat", action="store_true", help="show: one line per file")
    options = parser.parse_args(arguments)
    if options.action != "ls" and options.name is None:
        parser.error(f"{options.action} needs a NAME; list the names with: holdfast salvage ls")
    repos = [run.summary.repo for run in all_runs(Home())] if options.repo is None else []
    return asyncio.run(_run_action(options, repos))


async def _run_action(options: argparse.Namespace, run_repositories: list[str | None]) -> int:
    if options.repo is not None:
        repositories = await repositories_of((), [options.repo])
    else:
        repositories = await repositories_of(run_repositories, (), os.getcwd())
    return await _ACTIONS[options.action](options, repositories)


async def _ls(options: argparse.Namespace, repositories: list[str]) -> int:
    found = await list_salvaged(repositories, options.name)
    if options.json:
        for entry in found:
            print(json.dumps({**entry._asdict(), "ref": entry.ref, "run": entry.run}, ensure_ascii=False))
    elif found:
        _print_table(found)
    else:
        sys.stderr.write("nothing was salvaged\n")
    return EXIT_OK


async def _show(options: argparse.Namespace, repositories: list[str]) -> int:
    found = await find_salvaged(repositories, options.name)
    sys.stderr.write(f"{printable(found.name)}  {format_time(found.when)}  {printable(found.what)}\n")
    print_comparison(await salvaged_changes(found), stat=options.stat, as_json=options.json)
    return EXIT_OK


async def _restore(options: argparse.Namespace, repositories: list[str]) -> int:
    found = await find_salvaged(repositories, options.name)
    branch = await restore_salvaged(found, options.branch)
    if options.json:
        print(json.dumps({"name": found.name, "repo": found.repo, "branch": branch}, ensure_ascii=False))
        return EXIT_OK
    print(f"{printable(found.name)}  {paint('restored as', 'green')} {printable(branch)}")
    sys.stderr.write(
        f"switch to it with: git switch {printable(branch)}, in {printable(found.repo.removesuffix('/.git'))}\n"
    )
    return EXIT_OK


def _print_table(entries: list[SalvageEntry]) -> None:
    rows = [(printable(entry.name), format_time(entry.when), printable(entry.what)) for entry in entries]
    name, when, _ = column_widths(rows)
    for row in rows:
        print(f"{row[0]:{name}}  {row[1]:{when}}  {row[2]}")


_ACTIONS = {"ls": _ls, "show": _show, "restore": _restore}

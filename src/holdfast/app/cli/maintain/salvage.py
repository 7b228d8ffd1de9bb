"""`holdfast salvage`: what was saved before something forceful."""

import argparse
import asyncio
import json
import os
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.diff import print_comparison
from holdfast.app.text.screen import columns, moment, paint, plain
from holdfast.engine.commands.salvage import (
    Salvaged,
    find_salvaged,
    repositories_of,
    restore_salvaged,
    salvaged_changes,
    salvaged_in,
)
from holdfast.engine.places import default_home
from holdfast.engine.queries.runs import list_runs
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast salvage ls
  holdfast salvage show auth-system-k3x9p2/main/5f0c       what it holds that HEAD does not
  holdfast salvage restore 5f0c --branch rescued           as a branch; nothing else is touched"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "salvage",
        "Before a worktree is removed, a branch deleted or files overwritten, what would be lost is saved under\n"
        "refs/holdfast/salvage in the repository. Looks in the repositories of all runs, and in the one you are in.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "show", "restore"), metavar="ls|show|restore")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="of something saved; for ls, of a run; a beginning will do"
    )
    parser.add_argument("--repo", metavar="DIR", help="look in this repository only")
    parser.add_argument("--branch", metavar="NAME", help="restore: the branch to make (salvaged/…, unless named)")
    parser.add_argument("--stat", action="store_true", help="show: a line a file")
    options = parser.parse_args(arguments)
    if options.action != "ls" and options.name is None:
        parser.error(f"{options.action} what? `holdfast salvage ls` lists what there is")
    runs = [run.summary.repo for run in list_runs(default_home())] if options.repo is None else []
    return asyncio.run(_do(options, runs))


async def _do(options: argparse.Namespace, runs: list[str | None]) -> int:
    if options.repo is not None:
        repositories = await repositories_of((), [options.repo])
    else:
        repositories = await repositories_of(runs, (), os.getcwd())
    return await _ACTIONS[options.action](options, repositories)


async def _ls(options: argparse.Namespace, repositories: list[str]) -> int:
    found = await salvaged_in(repositories, options.name)
    if options.json:
        for one in found:
            print(json.dumps({**one._asdict(), "ref": one.ref, "run": one.run}, ensure_ascii=False))
    elif found:
        _print_table(found)
    else:
        sys.stderr.write("nothing was salvaged: nothing was at risk\n")
    return OK


async def _show(options: argparse.Namespace, repositories: list[str]) -> int:
    found = await find_salvaged(repositories, options.name)
    sys.stderr.write(f"{plain(found.name)}  {moment(found.when)}  {plain(found.what)}\n")
    print_comparison(await salvaged_changes(found), stat=options.stat, as_json=options.json)
    return OK


async def _restore(options: argparse.Namespace, repositories: list[str]) -> int:
    found = await find_salvaged(repositories, options.name)
    branch = await restore_salvaged(found, options.branch)
    if options.json:
        print(json.dumps({"name": found.name, "repo": found.repo, "branch": branch}, ensure_ascii=False))
        return OK
    print(f"{plain(found.name)}  {paint('restored as', 'green')} {plain(branch)}")
    sys.stderr.write(f"`git switch {plain(branch)}` in {plain(found.repo.removesuffix('/.git'))} takes you there\n")
    return OK


def _print_table(found: list[Salvaged]) -> None:
    rows = [(plain(one.name), moment(one.when), plain(one.what)) for one in found]
    name, when, _ = columns(rows)
    for row in rows:
        print(f"{row[0]:{name}}  {row[1]:{when}}  {row[2]}")


_ACTIONS = {"ls": _ls, "show": _show, "restore": _restore}

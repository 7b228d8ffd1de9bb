"""`holdfast workflow`: the workflows there are, and whether one of yours is sound."""

import json
import os

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import plain
from holdfast.app.text.workflow_drawing import drawn
from holdfast.core.work.workflow import Workflow
from holdfast.engine.queries.workflows import (
    all_workflows,
    checked_workflow,
    one_workflow,
    own_prompts,
    workflow_schema,
)
from holdfast.leaf.errors import OK
from holdfast.leaf.text.mistakes import BadFile

_EXAMPLES = """\
  holdfast workflow ls
  holdfast workflow show pipeline          its phases, drawn
  holdfast workflow show pipeline --file   as it is written: to begin one of your own with
  holdfast workflow check mine.yaml        every mistake in it, with its line
  holdfast workflow schema > schema.json   JSON schema, for your editor"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "workflow",
        "How a run goes about its work: its phases, who does each, what must be handed in, and what leads back.\n"
        "`holdfast run --workflow FILE` works by one of your own.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "show", "check", "schema"), metavar="ls|show|check|schema")
    parser.add_argument("name", nargs="?", metavar="NAME|FILE", help="show, check: which one")
    parser.add_argument("--file", action="store_true", help="show: the file itself")
    options = parser.parse_args(arguments)
    if options.action == "schema":
        print(json.dumps(workflow_schema(), indent=None if options.json else 2))
    elif options.action == "ls":
        _ls(all_workflows(), as_json=options.json)
    elif options.name is None:
        parser.error(f"{options.action} which one? `holdfast workflow ls` lists those that come with Holdfast")
    elif options.action == "check":
        _check(options.name, as_json=options.json)
    elif options.file and not options.json:
        print("\n".join(plain(line) for line in one_workflow(options.name)[1].splitlines()))
    else:
        found, _ = one_workflow(options.name)
        _show(found, own_prompts(found, os.getcwd()), as_json=options.json)
    return OK


def _check(name: str, *, as_json: bool) -> None:
    """What is wrong goes to stderr, a line for each mistake; with `--json` also to stdout, an object for each."""
    try:
        found, prompts = checked_workflow(name, os.getcwd())
    except BadFile as error:
        for mistake in error.mistakes if as_json else ():
            print(json.dumps(mistake._asdict(), ensure_ascii=False))
        raise
    if as_json:
        _show(found, prompts, as_json=True)
    else:
        print(f"{plain(name)}: sound, {len(found.phases) or 1} phases")
        _tell(prompts)


def _ls(workflows: list[Workflow], *, as_json: bool) -> None:
    for workflow in workflows:
        if as_json:
            print(json.dumps(msgspec.to_builtins(workflow), ensure_ascii=False))
        else:
            print(f"{workflow.name:10}  {workflow.about}")


def _show(workflow: Workflow, prompts: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**msgspec.to_builtins(workflow), "prompts": prompts}, ensure_ascii=False))
        return
    print(f"{plain(workflow.name)}: {plain(workflow.about)}\n")
    print("\n".join(drawn(workflow)))
    _tell(prompts)


def _tell(prompts: dict[str, str]) -> None:
    if prompts:
        print("\nPrompts of your own:")
    for name, file in prompts.items():
        print(f"  {plain(name):18} {plain(file)}")

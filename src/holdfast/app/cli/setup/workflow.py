"""`holdfast workflow`: list, draw and check workflows."""

import json
import os

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import pluralize, printable
from holdfast.app.text.workflow_drawing import draw_workflow
from holdfast.core.work.workflow import Workflow
from holdfast.engine.queries.setup.workflows import (
    built_in_workflows,
    check_workflow,
    user_prompts,
    workflow_schema,
    workflow_with_source,
)
from holdfast.leaf.errors import EXIT_OK
from holdfast.leaf.text.mistakes import BadFile

_EXAMPLES = """\
  holdfast workflow ls
  holdfast workflow show pipeline          draw its phases
  holdfast workflow show pipeline --file   print its file, as a start for your own
  holdfast workflow check mine.yaml        report every mistake with its line
  holdfast workflow schema > schema.json   JSON schema, for your editor"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "workflow",
        "List, draw and check workflows. A workflow defines the phases of a run: the role of each, what it submits,\n"
        "and where a failure leads. Use your own with: holdfast run --workflow FILE.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "show", "check", "schema"), metavar="ls|show|check|schema")
    parser.add_argument("name", nargs="?", metavar="NAME|FILE", help="show, check: the workflow")
    parser.add_argument("--file", action="store_true", help="show: print the file")
    options = parser.parse_args(arguments)
    if options.action == "schema":
        print(json.dumps(workflow_schema(), indent=None if options.json else 2))
    elif options.action == "ls":
        _ls(built_in_workflows(), as_json=options.json)
    elif options.name is None:
        parser.error(f"{options.action} needs a NAME or FILE; list the built-in workflows with: holdfast workflow ls")
    elif options.action == "check":
        _check(options.name, as_json=options.json)
    elif options.file and not options.json:
        print("\n".join(printable(line) for line in workflow_with_source(options.name)[1].splitlines()))
    else:
        found, _ = workflow_with_source(options.name)
        _show(found, user_prompts(found, os.getcwd()), as_json=options.json)
    return EXIT_OK


def _check(name: str, *, as_json: bool) -> None:
    """Mistakes go to stderr, one line each; with `--json` also to stdout, one object each."""
    try:
        found, prompts = check_workflow(name, os.getcwd())
    except BadFile as error:
        for mistake in error.mistakes if as_json else ():
            print(json.dumps(mistake._asdict(), ensure_ascii=False))
        raise
    if as_json:
        _show(found, prompts, as_json=True)
    else:
        print(f"{printable(name)}: valid, {pluralize(len(found.phases) or 1, 'phase')}")
        _print_prompts(prompts)


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
    print(f"{printable(workflow.name)}: {printable(workflow.about)}\n")
    print("\n".join(draw_workflow(workflow)))
    _print_prompts(prompts)


def _print_prompts(prompts: dict[str, str]) -> None:
    if prompts:
        print("\nYour own prompts:")
    for name, file in prompts.items():
        print(f"  {printable(name):18} {printable(file)}")

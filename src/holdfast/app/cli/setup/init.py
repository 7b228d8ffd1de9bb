"""`holdfast init`: from an installed Holdfast to the first run. Asks on a terminal; elsewhere the options decide."""

import argparse
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.cli.setup.questions import ask_choice, ask_text, confirm
from holdfast.app.text.screen import column_widths, paint, pluralize, printable
from holdfast.engine.commands.init import (
    Project,
    ValidatorOutcome,
    detect_project,
    try_checks,
    write_project_config,
    write_user_agent,
)
from holdfast.engine.home import Home
from holdfast.engine.queries.setup.agents import (
    ListedAgent,
    agent_problem,
    agents_from_settings,
    candidates,
    list_agents,
)
from holdfast.engine.queries.setup.settings import Config, load_config
from holdfast.leaf.errors import EXIT_OK, BadInput, NothingToDo

_EXAMPLES = """\
  holdfast init                                     on a terminal: asks what it cannot find out
  holdfast init --agent codex --yes                 asks nothing
  holdfast init --yes --check 'npm test' --setup 'npm ci'
  holdfast init --agent builtin --model openai:qwen3-coder --yes"""

NEXT = 'holdfast run "what you want done"'
_MODEL_EXAMPLES = {
    "OPENAI_API_KEY": "openai:gpt-5",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "GEMINI_API_KEY": "google:gemini-2.5-pro",
    "GOOGLE_API_KEY": "google:gemini-2.5-pro",
}
_MAX_FAILURE_LINES = 5
_MAX_LINE_COLUMNS = 72


def run(arguments: list[str]) -> int:
    parser = Parser(
        "init",
        "Write the first configuration: finds the agents that are installed and have a login or a key, detects the\n"
        "checks of this repository, runs each once, and detects what a new worktree needs. Writes the agent into your\n"
        "own config, and checks and setup into .holdfast.toml of the repository, which it then trusts. A file that\n"
        "exists is not changed without asking.",
        _EXAMPLES,
    )
    parser.add_argument("--agent", type=utf8_text, metavar="NAME", help="the agent to use by default")
    parser.add_argument("--model", type=utf8_text, metavar="NAME", help="its model, as the agent names it")
    parser.add_argument(
        "--check", type=utf8_text, action="append", default=[], metavar="CMD", help="a check, instead of the found ones"
    )
    parser.add_argument(
        "--setup", type=utf8_text, action="append", default=[], metavar="CMD", help="a command to set up a new worktree"
    )
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: here)")
    parser.add_argument("--user-only", action="store_true", help="write only your own config")
    parser.add_argument("-y", "--yes", action="store_true", help="ask nothing, and take what was found")
    options = parser.parse_args(arguments)
    if not options.yes and (options.json or not is_interactive()):
        raise BadInput("not a terminal, so nothing can be asked; run: holdfast init --yes (or --agent NAME --yes)")
    result = initialize(Home(), options)
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        print(f"next: {result['next']}")
    return EXIT_OK


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def initialize(home: Home, options: argparse.Namespace) -> dict[str, Any]:
    """Ask, try and write. Returns what was chosen and written, as `--json` prints it."""
    config = load_config(options.repo, home=home)
    agent, model = _choose_agent(home, config, options)
    written = _write_agent(home, config, agent, model, options)
    result: dict[str, Any] = {"agent": agent, "model": model, "files": [written] if written is not None else []}
    if not options.user_only:
        result |= _initialize_project(home, options, result["files"])
    return {"next": NEXT, **result}


# The agent


def _choose_agent(home: Home, config: Config, options: argparse.Namespace) -> tuple[str, str | None]:
    configured = None if config.origins["agent"].layer == "built-in" else config.settings.agent
    chosen = options.agent or (configured if options.yes else None)
    if chosen is None:
        found = candidates(list_agents(home, agents_from_settings(config.settings)))
        if not found:
            raise NothingToDo(_nothing_installed(list_agents(home)))
        chosen = found[0].name if options.yes else _ask_agent(found, configured)
    model = options.model
    if chosen == "builtin" and model is None and config.settings.model is None and not os.environ.get("HOLDFAST_MODEL"):
        model = _default_model() if options.yes else _ask_model()
    problem = agent_problem(chosen, config.settings, model)
    if problem is not None:
        raise BadInput(problem)
    return chosen, model


def _nothing_installed(agents: Sequence[ListedAgent]) -> str:
    example = next(agent for agent in agents if agent.name == "claude")
    return (
        f"no agent was found here; install one, such as: {example.install} (holdfast agents ls lists all), or set "
        "OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY for the built-in agent; then: holdfast init. "
        "Without an agent: holdfast demo shows Holdfast at work, and --agent playbook:FILE plays a script of yours"
    )


def _ask_agent(found: Sequence[ListedAgent], configured: str | None) -> str:
    rows = [(agent.name, agent.login or f"no login found; log in with: {agent.login_command}") for agent in found]
    widths = column_widths(rows)
    _say("Agents that can work here:")
    for number, (name, login) in enumerate(rows, 1):
        _say(f"  {number}  {name:{widths[0]}}  {printable(login)}")
    names = [agent.name for agent in found]
    return names[
        ask_choice("Which one do you want?", len(names), names.index(configured) if configured in names else 0)
    ]


def _default_model() -> str:
    return next((name for key, name in _MODEL_EXAMPLES.items() if os.environ.get(key)), "")


def _ask_model() -> str:
    return ask_text("Its model, as PROVIDER:NAME (openai, anthropic, google)", _default_model())


def _write_agent(
    home: Home, config: Config, agent: str, model: str | None, options: argparse.Namespace
) -> dict[str, Any] | None:
    file, origin = home.config_file, config.origins["agent"]
    is_kept = origin.file == file and config.settings.agent == agent and model in (None, config.settings.model)
    must_ask = os.path.exists(file) and not is_kept and not options.yes
    if must_ask and not confirm(f'{file} exists. Write agent = "{agent}" into it?', default=False):
        is_kept = True
    if not is_kept:
        write_user_agent(home, agent, model)
    _say(f'{"kept" if is_kept else "wrote"} {printable(file)}  agent = "{printable(agent)}"')
    return {"file": file, "written": not is_kept}


# The project


def _initialize_project(home: Home, options: argparse.Namespace, files: list[dict[str, Any]]) -> dict[str, Any]:
    project = asyncio.run(detect_project(home, options.repo, options.check, options.setup))
    if project is None:
        _say("not in a git repository: its checks can be set up later, with holdfast init in it")
        return {"checks": [], "setup": [], "next": f"cd to a git repository, then {NEXT}"}
    _show_project(project)
    outcomes = _try_checks(project, options) if project.checks else []
    written = _write_project(home, project, outcomes, options)
    if written is not None:
        files.append(written)
    return {
        "checks": [
            {"name": check.name, "command": list(check.words), **_outcome_fields(check.name, outcomes)}
            for check in project.checks
        ],
        "setup": [list(words) for words in project.setup],
    }


def _outcome_fields(name: str, outcomes: Sequence[ValidatorOutcome]) -> dict[str, Any]:
    found = next((outcome for outcome in outcomes if outcome.name == name), None)
    return {"passed": found.passed if found is not None else None, "problem": found.problem if found else None}


def _show_project(project: Project) -> None:
    for words in project.setup:
        _say(f"setup of a new worktree: {printable(shlex.join(words))}")
    for words in project.unusable:
        _say(f"left out of the setup, because {words[0]} is not installed: {printable(shlex.join(words))}")
    if not project.checks:
        _say("no checks found; name one with: holdfast init --check 'COMMAND', or in .holdfast.toml")
        return
    _say(f"{pluralize(len(project.checks), 'check')} found; a task is done only when they pass:")
    widths = column_widths([(check.name, "") for check in project.checks])
    for check in project.checks:
        _say(f"  {printable(check.name):{widths[0]}}  {printable(shlex.join(check.words))}")


def _try_checks(project: Project, options: argparse.Namespace) -> list[ValidatorOutcome]:
    limit = project.checks[0].limit
    if not options.yes and not confirm(f"Run each of them once now (at most {limit:.0f} s each)?", default=True):
        return []

    async def show(outcome: ValidatorOutcome) -> None:
        _show_outcome(outcome)

    return asyncio.run(try_checks(project, show))


def _show_outcome(outcome: ValidatorOutcome) -> None:
    status = paint("passed", "green") if outcome.passed else paint("failed", "red")
    reason = f": {printable(outcome.problem)}" if outcome.problem else ""
    _say(f"  {status}  {printable(outcome.name)}  {outcome.seconds:.1f} s{reason}")
    lines = [line for line in outcome.output.splitlines() if line.strip()] if not outcome.passed else []
    for line in lines[:_MAX_FAILURE_LINES]:
        _say(f"          {printable(line)[:_MAX_LINE_COLUMNS]}")


def _write_project(
    home: Home, project: Project, outcomes: Sequence[ValidatorOutcome], options: argparse.Namespace
) -> dict[str, Any] | None:
    if not project.checks and not project.setup:
        return None
    if project.has_config:
        _say(f"kept {printable(project.config_file)}  it exists; edit it, then: holdfast config trust")
        return {"file": project.config_file, "written": False}
    if not options.yes and not confirm(f"Write them into {project.config_file}?", default=True):
        return {"file": project.config_file, "written": False}
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    file = write_project_config(home, project, failed)
    _say(f"wrote {printable(file)}  trusted as it is now; commit it to share it")
    if failed:
        _say(f"{', '.join(map(printable, failed))} failed: a check that fails before the work does not gate tasks")
    return {"file": file, "written": True}


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

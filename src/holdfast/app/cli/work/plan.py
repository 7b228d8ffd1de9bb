"""`holdfast plan`: prepare a run without starting it."""

import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.cli.live.run_session import flags_from_options
from holdfast.app.cli.work.uncommitted import warn_of_changes
from holdfast.app.text.screen import warn
from holdfast.core.conversation.permission import Policy
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.home import Home
from holdfast.engine.queries.setup.settings import load_config
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast plan --workflow loop tasks/ --seed tests/acceptance
  holdfast plan "add OAuth login" --name oauth        start it with: holdfast run
  holdfast plan --interview "users log in"            an agent asks you, then writes the tasks and tests"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "plan",
        "Prepare a run: check its plan and create its branch and worktree, without starting it. Seed files are added\n"
        "to the run's branch in one commit, before the first task. A seed in your checkout keeps its path; any other\n"
        "seed goes to the top of the repository under its own name.",
        _EXAMPLES,
    )
    parser.add_argument("goal", type=utf8_text, metavar="GOAL|PATH", help="the goal, or a task list")
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: here)")
    parser.add_argument(
        "--workflow", type=utf8_text, metavar="NAME", help="solo, loop, waves, pipeline, or your own file"
    )
    parser.add_argument(
        "--with", action="append", default=[], dest="phases", metavar="PHASE", help="include an optional phase"
    )
    parser.add_argument("--name", type=utf8_text, metavar="SLUG", help="the name of the run")
    parser.add_argument(
        "--base",
        type=utf8_text,
        metavar="BRANCH|COMMIT",
        help="the branch or commit to start from (default: the checked-out branch)",
    )
    parser.add_argument(
        "--include-changes", action="store_true", help="start with the uncommitted files of your checkout, too"
    )
    parser.add_argument(
        "--seed", action="append", default=[], metavar="PATH", help="a file or folder to start with, committed or not"
    )
    parser.add_argument("--agent", type=utf8_text, metavar="NAME", help="the agent")
    parser.add_argument("--model", type=utf8_text, metavar="NAME", help="the model, as the agent names it")
    parser.add_argument("--parallel", type=int, metavar="N", help="how many tasks run at once")
    parser.add_argument(
        "--allow", choices=[policy.value for policy in Policy], help="what agents may do without permission"
    )
    parser.add_argument("--set", type=utf8_text, action="append", default=[], metavar="KEY=VALUE", help="any setting")
    parser.add_argument(
        "--interview",
        action="store_true",
        help="a chat in which an agent asks about the goal and writes the task list and seed tests; you accept them",
    )
    options = parser.parse_args(arguments)
    flags = flags_from_options(options)
    if options.workflow is not None:
        flags["workflow"] = options.workflow
    home = Home()
    home.check_writable()
    seeds, phases = tuple(options.seed), tuple(options.phases)
    request = RunRequest(
        options.goal,
        options.repo,
        options.name,
        options.base,
        flags,
        seeds,
        must_start_now=False,
        phases=phases,
        include_changes=options.include_changes,
    )
    warn(load_config(options.repo, home=home, flags=flags).warnings)
    if options.interview:
        return asyncio.run(_interview(home, request, as_json=options.json))
    run_id = asyncio.run(prepare_run(home, request))
    if not (options.include_changes or seeds):
        asyncio.run(warn_of_changes(options.repo))
    print(json.dumps({"run": run_id}) if options.json else run_id)
    return EXIT_OK


async def _interview(home: Home, request: RunRequest, *, as_json: bool) -> int:
    """Begin an interview and show its chat. Without a terminal, it goes on with `send` and `accept`."""
    from holdfast.app.cli.chat.client import ChatClient  # slow imports that a plain plan does not need
    from holdfast.engine.commands.chat import ensure_runner
    from holdfast.engine.commands.interview import start_interview

    run_id = await start_interview(home, request)
    await ensure_runner(home, run_id)
    if as_json:
        print(json.dumps({"interview": run_id}))
        return EXIT_OK
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(run_id)
        warn([f"answer with: holdfast send {run_id} MESSAGE; accept the plan with: holdfast accept {run_id}"])
        return EXIT_OK
    from holdfast.app.cli.chat.screen import ChatScreen

    client = ChatClient(home, run_id)
    await client.open()
    return await ChatScreen(client).run()

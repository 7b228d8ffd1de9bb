"""`holdfast plan`: a run made ready and not begun."""

import asyncio
import json

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.cli.live.run_session import flags_of
from holdfast.app.text.screen import warn
from holdfast.core.conversation.permission import Policy
from holdfast.engine.commands.create import Wanted, prepare
from holdfast.engine.config.config import load
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast plan --workflow loop tasks/ --seed tests/acceptance
  holdfast plan "add OAuth login" --name oauth        `holdfast run` starts it"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "plan",
        "Make a run ready: its plan is checked, its branch and worktree exist, and nothing has begun. Seed files are\n"
        "committed to its branch as one commit, for every task to stand on. A seed in your checkout keeps its path;\n"
        "any other is placed at the top of the repository under its own name.",
        _EXAMPLES,
    )
    parser.add_argument("goal", type=words, metavar="GOAL|PATH", help="what is to be done, or a task list")
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: here)")
    parser.add_argument(
        "--workflow", type=words, metavar="NAME", help="solo, loop, waves, pipeline, or a file of your own"
    )
    parser.add_argument("--with", action="append", default=[], dest="phases", metavar="PHASE", help="an optional phase")
    parser.add_argument("--name", type=words, metavar="SLUG", help="what the run is called")
    parser.add_argument("--base", type=words, metavar="BRANCH", help="where it begins (default: what is checked out)")
    parser.add_argument(
        "--seed", action="append", default=[], metavar="PATH", help="a file or folder to begin with, committed or not"
    )
    parser.add_argument("--agent", type=words, metavar="NAME", help="who will work")
    parser.add_argument("--parallel", type=int, metavar="N", help="tasks at the same time")
    parser.add_argument(
        "--allow", choices=[policy.value for policy in Policy], help="what agents may do without asking"
    )
    parser.add_argument(
        "--set", type=words, action="append", default=[], metavar="KEY=VALUE", help="any setting of the config"
    )
    options = parser.parse_args(arguments)
    flags = flags_of(options)
    if options.workflow is not None:
        flags["workflow"] = options.workflow
    home = default_home()
    seeds, phases = tuple(options.seed), tuple(options.phases)
    wanted = Wanted(options.goal, options.repo, options.name, options.base, flags, seeds, begin=False, phases=phases)
    warn(load(options.repo, home=home, flags=flags).warnings)
    run_id = asyncio.run(prepare(home, wanted))
    print(json.dumps({"run": run_id}) if options.json else run_id)
    return OK

"""`holdfast agent`: the agents that come with Holdfast. Each speaks ACP on stdin and stdout."""

from holdfast.app.cli.arguments import Parser
from holdfast.leaf.importing import NoCollection

PROGRAMS = {  # each has a module agent_NAME.py with a function `run`
    "builtin": "a coding agent for any model endpoint",
    "playbook": "an agent that plays a script, for demos and tests; needs no key and no network",
}

_EXAMPLES = """\
  holdfast agent playbook rehearsal.yaml           run the agent, for an ACP client
  holdfast agent playbook --check rehearsal.yaml   check the script"""


def run(arguments: list[str]) -> int:
    if arguments and arguments[0] in PROGRAMS:
        with NoCollection():
            module = __import__(f"holdfast.app.cli.programs.agent_{arguments[0]}", fromlist=["run"])
        code: int = module.run(arguments[1:])
        return code
    width = max(map(len, PROGRAMS))
    programs = "\n".join(f"  {name:{width}}  {about}" for name, about in PROGRAMS.items())
    parser = Parser(
        "agent",
        f"Run an agent that comes with Holdfast. It speaks ACP on stdin and stdout.\n\n{programs}",
        _EXAMPLES,
    )
    parser.add_argument(
        "program", choices=PROGRAMS, metavar="|".join(PROGRAMS), help="the agent; it has its own --help"
    )
    parser.parse_args(arguments)
    raise AssertionError(arguments)  # parse_args exits on an unknown program

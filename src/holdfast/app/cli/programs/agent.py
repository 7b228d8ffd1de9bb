"""`holdfast agent`: the agents that come with Holdfast. Each is a program that speaks ACP on stdin and stdout."""

from holdfast.app.cli.arguments import Parser

PROGRAMS = {  # each in a file of its own, agent_NAME.py, with a `run`
    "builtin": "our own coding agent, for people who have only a model endpoint",
    "playbook": "plays a script: for demonstrations, rehearsals and tests; no key, no network",
}

_EXAMPLES = """\
  holdfast agent playbook rehearsal.yaml           the agent itself, for an ACP client
  holdfast agent playbook --check rehearsal.yaml   is the script good?"""


def run(arguments: list[str]) -> int:
    if arguments and arguments[0] in PROGRAMS:
        module = __import__(f"holdfast.app.cli.programs.agent_{arguments[0]}", fromlist=["run"])
        code: int = module.run(arguments[1:])
        return code
    width = max(map(len, PROGRAMS))
    programs = "\n".join(f"  {name:{width}}  {what}" for name, what in PROGRAMS.items())
    parser = Parser(
        "agent",
        f"An agent that comes with Holdfast, as a program: it speaks ACP on stdin and stdout.\n\n{programs}",
        _EXAMPLES,
    )
    parser.add_argument("program", choices=PROGRAMS, metavar="|".join(PROGRAMS), help="its own --help tells more")
    parser.parse_args(arguments)
    raise AssertionError(arguments)  # a program by that name would have been run

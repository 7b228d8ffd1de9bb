"""`holdfast completion`: scripts by which a shell completes what is typed."""

import json
import sys

from holdfast.leaf.errors import OK

SHELLS = ("bash", "zsh", "fish")

_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")  # shells expand the rest

_EXAMPLES = """\
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast             with ~/.zfunc in your fpath, before compinit
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish"""


def run(arguments: list[str]) -> int:
    if arguments == ["--runs"]:  # on every press of the key: nothing else is loaded
        return _print_runs()
    from holdfast.app.cli.arguments import Parser
    from holdfast.app.cli.setup.command_list import described
    from holdfast.app.cli.setup.completion_scripts import SCRIPTS

    parser = Parser(
        "completion",
        "A script for your shell. It completes commands, options, their values, and the names of runs.",
        _EXAMPLES,
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="|".join(SHELLS), help="for which shell")
    parser.add_argument("--runs", action="store_true", help="only the names of the runs: what the scripts ask for")
    options = parser.parse_args(arguments)
    if options.runs:
        return _print_runs()
    if options.shell is None:
        parser.error(f"which shell? {', '.join(SHELLS)}")
    script = SCRIPTS[options.shell](described())
    sys.stdout.write(f"{json.dumps({'shell': options.shell, 'script': script})}\n" if options.json else script)
    return OK


def _print_runs() -> int:
    from holdfast.engine.places import default_home
    from holdfast.engine.queries.runs import list_runs

    sys.stdout.write("".join(f"{run.id}\n" for run in list_runs(default_home()) if not set(run.id) - _HARMLESS))
    return OK

"""`holdfast completion`: print completion scripts for shells."""

import json
import sys

from holdfast.leaf.errors import EXIT_OK

SHELLS = ("bash", "zsh", "fish")

_SAFE_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)  # shells expand the rest

_EXAMPLES = """\
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast             ~/.zfunc must be in your fpath before compinit
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish"""


def run(arguments: list[str]) -> int:
    if arguments == ["--runs"]:  # called on every Tab: import nothing else
        return _print_runs()
    from holdfast.app.cli.arguments import Parser
    from holdfast.app.cli.setup.command_list import describe_commands
    from holdfast.app.cli.setup.completion_scripts import SCRIPTS

    parser = Parser(
        "completion",
        "Print a completion script for your shell. It completes commands, options, values and run names.",
        _EXAMPLES,
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="|".join(SHELLS), help="the shell")
    parser.add_argument("--runs", action="store_true", help="print only run names; the scripts call this")
    options = parser.parse_args(arguments)
    if options.runs:
        return _print_runs()
    if options.shell is None:
        parser.error(f"name a shell: {', '.join(SHELLS)}")
    script = SCRIPTS[options.shell](describe_commands())
    sys.stdout.write(f"{json.dumps({'shell': options.shell, 'script': script})}\n" if options.json else script)
    return EXIT_OK


def _print_runs() -> int:
    from holdfast.app.cli.listing import all_runs
    from holdfast.engine.home import Home

    sys.stdout.write("".join(f"{run.id}\n" for run in all_runs(Home()) if not set(run.id) - _SAFE_CHARACTERS))
    return EXIT_OK

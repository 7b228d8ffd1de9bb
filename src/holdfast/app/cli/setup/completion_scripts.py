"""The completion scripts. Run names are looked up on Tab; everything else is in the script."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.app.cli.setup.command_list import CompletionCommand, CompletionValue

_RUNS_COMMAND = "command holdfast completion --runs 2>/dev/null"


def _bash(commands: Sequence[CompletionCommand]) -> str:
    names = " ".join(command.name for command in commands)
    return _join_lines(
        "# bash completion for holdfast",
        "_holdfast() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}",
        "  COMPREPLY=()",
        "  if ((COMP_CWORD == 1)); then",
        f"    COMPREPLY=($(compgen -W '{names} --help --version' -- \"$cur\")); return",
        "  fi",
        '  case "$command $prev" in',
        *(f"    {' | '.join(cases)}) {_bash_words(value)} return ;;" for cases, value in _options_with_value(commands)),
        "  esac",
        '  case "$command" in',
        *(line for command in commands for line in _bash_command(command)),
        "  esac",
        "}",
        "complete -o default -F _holdfast holdfast",
    )


def _bash_command(command: CompletionCommand) -> Iterator[str]:
    options = " ".join(name for option in command.options for name in option.names)
    yield f"    {command.name})"
    yield f"      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '{options}' -- \"$cur\")); return; fi"
    first = _first_positional(command)
    if first is not None:
        yield f"      {_bash_words(first)}"
    yield "      ;;"


def _bash_words(value: CompletionValue) -> str:
    """Return nothing for files: the shell completes them by default."""
    if not value.words and not value.runs:
        return ":;"
    words = f"{' '.join(value.words)} $({_RUNS_COMMAND})" if value.runs else " ".join(value.words)
    return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"));'


def _zsh(commands: Sequence[CompletionCommand]) -> str:
    return _join_lines(
        "#compdef holdfast",
        "# zsh completion for holdfast",
        "_holdfast() {",
        "  local -a commands runs",
        '  local command=$words[2] previous="$words[CURRENT-1]" current="$words[CURRENT]"',
        "  if ((CURRENT == 2)); then",
        "    commands=(",
        *(f"      {_quote(f'{command.name}:{command.about}')}" for command in commands),
        "    )",
        "    _describe command commands; return",
        "  fi",
        '  case "$command $previous" in',
        *(f"    {'|'.join(cases)}) {_zsh_words(value)}; return ;;" for cases, value in _options_with_value(commands)),
        "  esac",
        '  case "$command" in',
        *(line for command in commands for line in _zsh_command(command)),
        "  esac",
        "}",
        'if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi',
    )


def _zsh_command(command: CompletionCommand) -> Iterator[str]:
    options = " ".join(name for option in command.options for name in option.names)
    yield f"    {command.name})"
    yield f"      if [[ $current == -* ]]; then compadd -- {options}; return; fi"
    first = _first_positional(command)
    yield f"      {_zsh_words(first) if first is not None else '_files'} ;;"


def _zsh_words(value: CompletionValue) -> str:
    parts = [f"compadd -- {' '.join(value.words)}"] if value.words else []
    if value.runs:
        parts.append(f'runs=(${{(f)"$({_RUNS_COMMAND})"}}); compadd -a runs')
    return "; ".join(parts) or "_files"


def _fish(commands: Sequence[CompletionCommand]) -> str:
    return _join_lines(
        "# fish completion for holdfast",
        "complete -c holdfast -f",
        *(
            f"complete -c holdfast -n __fish_use_subcommand -a {command.name} -d {_quote(command.about)}"
            for command in commands
        ),
        *(line for command in commands for line in _fish_command(command)),
    )


def _fish_command(command: CompletionCommand) -> Iterator[str]:
    seen = f"complete -c holdfast -n '__fish_seen_subcommand_from {command.name}'"
    for option in command.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        value = f" {_fish_words(option.value)}" if option.value is not None else ""
        yield f"{seen} {names}{value} -d {_quote(option.about)}"
    first = _first_positional(command)
    if first is not None:
        yield f"{seen} {_fish_words(first)}"


def _fish_words(value: CompletionValue) -> str:
    if not value.words and not value.runs:
        return "-r -F"
    words = f"{' '.join(value.words)} ({_RUNS_COMMAND})" if value.runs else " ".join(value.words)
    return f"-x -a {_quote(words.strip())}"


def _options_with_value(commands: Iterable[CompletionCommand]) -> Iterator[tuple[list[str], CompletionValue]]:
    """Yield the options with a value, each with its command."""
    for command in commands:
        for option in command.options:
            if option.value is not None:
                yield [f'"{command.name} {name}"' for name in option.names], option.value


def _first_positional(command: CompletionCommand) -> CompletionValue | None:
    """Return the argument that has words or runs; no command has two. Shells complete files by default."""
    return next((value for value in command.positionals if value.words or value.runs), None)


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


def _join_lines(*lines: str) -> str:
    return "\n".join((*lines, ""))


SCRIPTS: Mapping[str, Callable[[Sequence[CompletionCommand]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

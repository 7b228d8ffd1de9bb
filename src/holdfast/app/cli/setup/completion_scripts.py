"""The scripts themselves, for each shell. Run names are asked for when the key is pressed; all else stands in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.app.cli.setup.command_list import Command, Value

_RUNS = "command holdfast completion --runs 2>/dev/null"


def _bash(commands: Sequence[Command]) -> str:
    names = " ".join(command.name for command in commands)
    return _lines(
        "# bash completion for holdfast",
        "_holdfast() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}",
        "  COMPREPLY=()",
        "  if ((COMP_CWORD == 1)); then",
        f"    COMPREPLY=($(compgen -W '{names} --help --version' -- \"$cur\")); return",
        "  fi",
        '  case "$command $prev" in',
        *(f"    {' | '.join(cases)}) {_bash_words(value)} return ;;" for cases, value in _valued(commands)),
        "  esac",
        '  case "$command" in',
        *(line for command in commands for line in _bash_command(command)),
        "  esac",
        "}",
        "complete -o default -F _holdfast holdfast",
    )


def _bash_command(command: Command) -> Iterator[str]:
    options = " ".join(name for option in command.options for name in option.names)
    yield f"    {command.name})"
    yield f"      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '{options}' -- \"$cur\")); return; fi"
    first = _first(command)
    if first is not None:
        yield f"      {_bash_words(first)}"
    yield "      ;;"


def _bash_words(value: Value) -> str:
    """Where there are no words, the shell's own completion of files takes over."""
    if not value.words and not value.runs:
        return ":;"
    words = f"{' '.join(value.words)} $({_RUNS})" if value.runs else " ".join(value.words)
    return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"));'


def _zsh(commands: Sequence[Command]) -> str:
    return _lines(
        "#compdef holdfast",
        "# zsh completion for holdfast",
        "_holdfast() {",
        "  local -a commands runs",
        '  local command=$words[2] previous="$words[CURRENT-1]" current="$words[CURRENT]"',
        "  if ((CURRENT == 2)); then",
        "    commands=(",
        *(f"      {_quoted(f'{command.name}:{command.about}')}" for command in commands),
        "    )",
        "    _describe command commands; return",
        "  fi",
        '  case "$command $previous" in',
        *(f"    {'|'.join(cases)}) {_zsh_words(value)}; return ;;" for cases, value in _valued(commands)),
        "  esac",
        '  case "$command" in',
        *(line for command in commands for line in _zsh_command(command)),
        "  esac",
        "}",
        'if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi',
    )


def _zsh_command(command: Command) -> Iterator[str]:
    options = " ".join(name for option in command.options for name in option.names)
    yield f"    {command.name})"
    yield f"      if [[ $current == -* ]]; then compadd -- {options}; return; fi"
    first = _first(command)
    yield f"      {_zsh_words(first) if first is not None else '_files'} ;;"


def _zsh_words(value: Value) -> str:
    parts = [f"compadd -- {' '.join(value.words)}"] if value.words else []
    if value.runs:
        parts.append(f'runs=(${{(f)"$({_RUNS})"}}); compadd -a runs')
    return "; ".join(parts) or "_files"


def _fish(commands: Sequence[Command]) -> str:
    return _lines(
        "# fish completion for holdfast",
        "complete -c holdfast -f",
        *(
            f"complete -c holdfast -n __fish_use_subcommand -a {command.name} -d {_quoted(command.about)}"
            for command in commands
        ),
        *(line for command in commands for line in _fish_command(command)),
    )


def _fish_command(command: Command) -> Iterator[str]:
    seen = f"complete -c holdfast -n '__fish_seen_subcommand_from {command.name}'"
    for option in command.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        value = f" {_fish_words(option.value)}" if option.value is not None else ""
        yield f"{seen} {names}{value} -d {_quoted(option.about)}"
    first = _first(command)
    if first is not None:
        yield f"{seen} {_fish_words(first)}"


def _fish_words(value: Value) -> str:
    if not value.words and not value.runs:
        return "-r -F"
    words = f"{' '.join(value.words)} ({_RUNS})" if value.runs else " ".join(value.words)
    return f"-x -a {_quoted(words.strip())}"


def _valued(commands: Iterable[Command]) -> Iterator[tuple[list[str], Value]]:
    """Options that take a value, each with the command it belongs to."""
    for command in commands:
        for option in command.options:
            if option.value is not None:
                yield [f'"{command.name} {name}"' for name in option.names], option.value


def _first(command: Command) -> Value | None:
    """What a command acts on. Only one of its places has words or runs; files are what shells offer anyway."""
    return next((place for place in command.places if place.words or place.runs), None)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


def _lines(*lines: str) -> str:
    return "\n".join((*lines, ""))


SCRIPTS: Mapping[str, Callable[[Sequence[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

"""Variables such as `{{prompt}}` in the texts of a playbook."""

import re
from collections.abc import Callable, Iterator, Mapping

NAMES = ("prompt", "cwd", "session", "turn", "result", "exit", "pid", "n")

_VARIABLE = re.compile(r"\{\{\s*(!?[A-Za-z_][\w.]*)\s*\}\}")
_ENV_PREFIX = "env."


def names_in(text: str) -> Iterator[str]:
    return (match[1] for match in _VARIABLE.finditer(text))


def name_error(name: str) -> str | None:
    """What is wrong with a variable's name; None when nothing is."""
    if name.startswith(("!", _ENV_PREFIX)) or name in NAMES:
        return None
    allowed = ", ".join((*NAMES, "env.NAME"))
    return f"there is no variable {{{{{name}}}}}; allowed: {allowed} ({{{{!{name}}}}} stands for the text itself)"


def fill(text: str, values: Mapping[str, Callable[[], object]], environment: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("!"):
            return f"{{{{{name[1:]}}}}}"
        if name.startswith(_ENV_PREFIX):
            return environment.get(name.removeprefix(_ENV_PREFIX), "")
        return str(values[name]())

    return _VARIABLE.sub(value, text) if "{{" in text else text

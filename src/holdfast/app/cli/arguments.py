"""The argument parser of all commands: a usage error is one line."""

import argparse
import re
from typing import NoReturn

from holdfast.leaf.errors import BadInput


class UsageError(BadInput):
    """Invalid arguments. `parser` has the valid ones."""

    def __init__(self, message: str, parser: argparse.ArgumentParser) -> None:
        super().__init__(message)
        self.parser = parser


def utf8_text(text: str) -> str:
    """Argument type: text for a log, which is UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8") from None
    return text


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Fills the paragraphs of a description that is too wide for the terminal; keeps examples and indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(self._fill_paragraph(paragraph, width, indent) for paragraph in paragraphs)

    def _fill_paragraph(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        is_prose = not any(line.startswith(" ") for line in lines)
        if is_prose and any(len(line) > width for line in lines):
            return super(argparse.RawDescriptionHelpFormatter, self)._fill_text(text, width, indent)
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser with `examples` at the end of its help, and `--json`."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"holdfast {command}",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.add_argument("--json", action="store_true", help="print one JSON object per line, for scripts")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}{self._suggestion(message)}; see: {self.prog} --help", self)

    def _suggestion(self, message: str) -> str:
        """Suggest an option for the first one that does not exist, or a choice for an invalid one."""
        from difflib import get_close_matches  # slow import that only an error needs

        unknown = re.search(r"unrecognized arguments: (?:[^-]\S* )*(-[^\s=]+)", message)
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if unknown is not None:
            known = [option for action in self._actions for option in action.option_strings]
            found = get_close_matches(unknown[1], known, n=1)
        elif choice is not None:
            found = get_close_matches(choice[1], [part.strip(" '") for part in choice[2].split(",")], n=1)
        else:
            found = []
        return f" (did you mean {found[0]}?)" if found else ""

"""The argument parser of all commands: a usage error is one line."""

import argparse
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


class Parser(argparse.ArgumentParser):
    """A parser with `examples` at the end of its help, and `--json`."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"holdfast {command}",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--json", action="store_true", help="print one JSON object per line, for scripts")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see: {self.prog} --help", self)

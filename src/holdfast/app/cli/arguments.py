"""Command-line arguments, with one clear line for a wrong one."""

import argparse
from typing import NoReturn

from holdfast.leaf.errors import BadInput


class WrongUsage(BadInput):
    """Arguments that a command does not take. `parser` knows which it does."""

    def __init__(self, message: str, parser: argparse.ArgumentParser) -> None:
        super().__init__(message)
        self.parser = parser


def words(text: str) -> str:
    """As a `type`: what is written to a log, which is UTF-8, must be that too."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not UTF-8, and a log is") from None
    return text


class Parser(argparse.ArgumentParser):
    """`examples` stand at the end of the help: they teach more than the list of options."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"holdfast {command}",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--json", action="store_true", help="one JSON object a line, for scripts")

    def error(self, message: str) -> NoReturn:
        raise WrongUsage(f"{message}; `{self.prog} --help` explains", self)

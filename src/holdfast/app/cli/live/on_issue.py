"""How a resume continues after an issue: by `--on-issue` and `--instructions`, or by asking on a terminal."""

import argparse
import sys

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.text.screen import printable
from holdfast.core.decide.resume import ON_ISSUE, Choice, ResumeChoice, ResumeDecision
from holdfast.engine.queries.logs import RunView
from holdfast.leaf.errors import DecisionNeeded


def add_on_issue(parser: Parser) -> None:
    parser.add_argument(
        "--on-issue",
        type=_choice_or_text,
        metavar="retry|restart|skip|replan|ask|TEXT",
        help="how to continue after failures and issues; any other text is instructions",
    )
    parser.add_argument(
        "--instructions",
        type=_text_or_stdin,
        metavar="TEXT",
        help="instructions for every later prompt; never read as one of the choices; - reads them from stdin",
    )


def _choice_or_text(argument: str) -> str:
    """Argument type. A single word that is almost a choice is a typo of it, not instructions."""
    from difflib import get_close_matches  # slow import that other options do not need

    text = utf8_text(argument)
    near = get_close_matches(text.strip().lower(), ON_ISSUE, n=1, cutoff=0.7)
    if text not in ON_ISSUE and near:
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of the choices; did you mean {near[0]}? Text for the agents: --instructions TEXT"
        )
    return text


def _text_or_stdin(argument: str) -> str:
    """Argument type. Other programs pass the text on stdin: every user of a machine sees arguments."""
    return utf8_text(sys.stdin.buffer.read().decode(errors="surrogateescape") if argument == "-" else argument)


def print_choice_warning(decision: ResumeDecision, choice: ResumeChoice) -> None:
    for option in decision.options:
        if option.choice is choice.choice and option.warning:
            sys.stderr.write(f"warning: {printable(option.warning)}\n")


def is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask_choice(view: RunView) -> ResumeChoice:
    """Ask until the answer is one of the letters. The end of the input, or Ctrl-C, changes nothing."""
    from holdfast.app.text.resume_report import format_report, instruction_context

    decision = view.analysis.decision
    sys.stderr.write(format_report(view.analysis) + "\n\n")
    options = {option.key: option for option in decision.options}
    while (answer := ask_line("Your choice: ").upper()) not in options:
        sys.stderr.write(f"{printable(answer)!r} is not one of {', '.join(options)}\n")
    chosen = ResumeChoice(options[answer].choice)
    print_choice_warning(decision, chosen)
    if chosen.choice is not Choice.CUSTOM:
        return chosen
    sys.stderr.write("\n" + "\n".join(instruction_context(view.state)) + "\n\n")
    while not (instructions := ask_line("Your instructions: ")):
        sys.stderr.write("type instructions for the agents, or press Ctrl-C to cancel\n")
    return ResumeChoice(Choice.CUSTOM, instructions)


def ask_line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise DecisionNeeded("no choice was made; nothing changed")
    return line.strip()

"""How a resume goes on past what went wrong: by `--on-issue` and `--instructions`, or by a person on a terminal."""

import sys

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.text.resume_report import context, report
from holdfast.app.text.screen import plain
from holdfast.core.decide.resume import Choice, Decision, ResumeChoice
from holdfast.engine.queries.logs import RunView
from holdfast.leaf.errors import DecisionNeeded


def add_on_issue(parser: Parser) -> None:
    parser.add_argument(
        "--on-issue",
        type=words,
        metavar="retry|restart|skip|replan|ask|TEXT",
        help="how to go on past what went wrong; any other text is instructions",
    )
    parser.add_argument(
        "--instructions",
        type=words,
        metavar="TEXT",
        help="for every prompt from here on; never read as one of the choices",
    )


def warn_of(decision: Decision, chosen: ResumeChoice) -> None:
    for option in decision.options:
        if option.choice is chosen.choice and option.warning:
            sys.stderr.write(f"warning: {plain(option.warning)}\n")


def is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask_choice(view: RunView) -> ResumeChoice:
    """Asked until one of the letters is given; the end of the input, or Ctrl-C, changes nothing."""
    decision = view.analysis.decision
    sys.stderr.write(report(view.analysis) + "\n\n")
    options = {option.key: option for option in decision.options}
    while (answer := ask_line("Your choice: ").upper()) not in options:
        sys.stderr.write(f"{plain(answer)!r} is none of {', '.join(options)}\n")
    chosen = ResumeChoice(options[answer].choice)
    warn_of(decision, chosen)
    if chosen.choice is not Choice.CUSTOM:
        return chosen
    sys.stderr.write("\n" + "\n".join(context(view.state)) + "\n\n")
    while not (instructions := ask_line("Your instructions: ")):
        sys.stderr.write("type what the agents should know, or Ctrl-C to cancel\n")
    return ResumeChoice(Choice.CUSTOM, instructions)


def ask_line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise DecisionNeeded("no choice was made; nothing was changed")
    return line.strip()

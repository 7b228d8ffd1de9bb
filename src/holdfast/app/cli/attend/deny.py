"""`holdfast deny`: refuse what an agent asks to do."""

from holdfast.app.cli.attend.answer import answered

_EXAMPLES = """\
  holdfast deny auth-system
  holdfast deny auth-system --reason "use the migration tool"     its agent is told with the next prompt
  holdfast deny auth-system --all
  holdfast deny auth-system --changes "keep the old flag too"      to a phase: planned anew, and asked again"""


def run(arguments: list[str]) -> int:
    about = (
        "Refuse what an agent asks to do. The answer is on the disk when this returns. The first answer to a request\n"
        "stands: a second one is refused with exit code 5."
    )
    return answered(arguments, "deny", about, _EXAMPLES, allow=False)

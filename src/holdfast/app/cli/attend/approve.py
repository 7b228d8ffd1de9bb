"""`holdfast approve`: let an agent do what it asks to do."""

from holdfast.app.cli.attend.answer import answered

_EXAMPLES = """\
  holdfast approve auth-system               the one open request
  holdfast approve auth-system 3f9a --option always"""


def run(arguments: list[str]) -> int:
    about = (
        "Allow what an agent asks to do. The answer is on the disk when this returns, and holds though the agent, or\n"
        "the run, is not there now. The first answer to a request stands: a second one is refused with exit code 5."
    )
    return answered(arguments, "approve", about, _EXAMPLES, allow=True)

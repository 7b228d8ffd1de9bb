"""`holdfast approve`: allow what an agent or a phase requests."""

from holdfast.app.cli.attend.answer import answer_requests

_EXAMPLES = """\
  holdfast approve auth-system               the only open request
  holdfast approve auth-system 3f9a --always      allow exactly this call from now on, in this run"""


def run(arguments: list[str]) -> int:
    about = (
        "Allow what an agent or a phase requests. The answer is on the disk when this returns; it also applies if the\n"
        "agent or the run is not alive now. The first answer to a request stands: a second one fails with exit code 5."
    )
    return answer_requests(arguments, "approve", about, _EXAMPLES, allow=True)

"""`holdfast deny`: refuse what an agent or a phase requests."""

from holdfast.app.cli.attend.answer import answer_requests

_EXAMPLES = """\
  holdfast deny auth-system
  holdfast deny auth-system --reason "use the migration tool"     sent to its agent with the next prompt
  holdfast deny auth-system --all
  holdfast deny auth-system --changes "keep the old flag too"      for a phase: it plans again, then asks again
  holdfast deny auth-system --revoke 5f0c11d2                      ask again for what `approve --always` allowed"""


def run(arguments: list[str]) -> int:
    about = (
        "Refuse what an agent or a phase requests. The answer is on the disk when this returns. The first answer to a\n"
        "request stands: a second one fails with exit code 5."
    )
    return answer_requests(arguments, "deny", about, _EXAMPLES, allow=False)

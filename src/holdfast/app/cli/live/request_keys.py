"""Answers permission requests in place: one key on the terminal that shows the run.

Used by every view of a running run. The request itself, with what will run, is shown by the view before its keys are.
"""

from holdfast.core.messages.schema import UserAnswer
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, NeedKind, needs_to_answer
from holdfast.engine.commands.answer import send_answer
from holdfast.engine.home import Home
from holdfast.leaf.errors import AlreadyAnswered, HoldfastError

ALLOW, DENY, ALWAYS = "y", "n", "a"


class RequestKeys:
    """The request that the keys answer now, and what each of them does."""

    def __init__(self, home: Home, run_id: str) -> None:
        self._home = home
        self._run_id = run_id
        self._answered: set[str] = set()

    def current(self, state: RunState) -> Need | None:
        """Return the oldest permission request that has no answer from here."""
        return next((need for need in self._permissions(state) if need.key not in self._answered), None)

    def hints(self, state: RunState) -> dict[str, str]:
        """Return what to show beside each open request."""
        current = self.current(state)
        return {
            need.key or "": "answered"
            if need.key in self._answered
            else "next"
            if current is None or need.key != current.key
            else self._key_hint(state, need)
            for need in self._permissions(state)
        }

    async def answer(self, state: RunState, key: str, reason: str | None = None) -> str | None:
        """Answer the current request; `reason` is why it is denied. Returns a line to show, if there is one."""
        need, key = self.current(state), key.lower()
        if need is None or key not in (ALLOW, DENY, ALWAYS):
            return None
        if key == ALWAYS and not _can_have_rule(state, need):
            return f"this request names no command and no path to always allow; press {ALLOW} or {DENY}"
        request = need.key or ""
        self._answered.add(request)
        try:
            answer = UserAnswer(request, key != DENY, reason=reason, always=key == ALWAYS)
            await send_answer(self._home, self._run_id, state, need, answer)
        except AlreadyAnswered as error:
            return str(error)
        except (HoldfastError, OSError) as error:
            self._answered.discard(request)
            return f"not answered: {error}"
        return None

    def _permissions(self, state: RunState) -> list[Need]:
        return [need for need in needs_to_answer(state) if need.want is NeedKind.PERMISSION]

    def _key_hint(self, state: RunState, need: Need) -> str:
        always = f" · {ALWAYS} always in this run" if _can_have_rule(state, need) else ""
        return f"{ALLOW} allow · {DENY} deny{always}"


def _can_have_rule(state: RunState, need: Need) -> bool:
    request = state.permissions.get(need.key or "")
    return request is not None and (request.command is not None or bool(request.paths))

"""Usage limits of accounts, as runs meet them: in seconds after a moment."""

from holdfast.core.text.moment import format_moment
from holdfast.store.base import AccountLimit

ACCOUNT = "a" * 24
_MOMENT = 1_800_000_000.0


def moment(second: float) -> str:
    return format_moment(_MOMENT + second)


def account_limit(since: float, until: float = 3600.0, run: str = "run-aaaaaa") -> AccountLimit:
    return AccountLimit(moment(until), moment(since), run, resets_at=moment(until - 1), provider="anthropic")

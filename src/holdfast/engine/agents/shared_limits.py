"""Usage limits that runs of a store share: when one run meets the limit of an account, the others send no prompt.

The store says until when, to all machines that use it. It is a hint: each run that heeds it records a `quota.hit` of
its own, and goes by its log from then on. Without the hint, a run finds the limit out by a prompt that is refused.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress

from holdfast.agents.registry import AgentDefinition, environment_for
from holdfast.core.events.provider import QuotaHit
from holdfast.core.text.moment import format_moment, parse_moment
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import AccountLimit, AccountLimits


class SharedLimits:
    """The limits that other runs met. Without a `store` for them, nothing is shared."""

    def __init__(
        self,
        store: AccountLimits | None = None,
        run_id: str = "",
        *,
        clock: Callable[[], float],
        ignores_known: bool = False,
    ) -> None:
        """With `ignores_known`, limits that were met before now do not count: a person said so."""
        self._store = store
        self._run_id = run_id
        self._clock = clock
        self._ignored_until = format_moment(clock()) if ignores_known else ""

    async def publish(self, entry: AgentDefinition, event: QuotaHit) -> None:
        """Tell the other runs. That it cannot be written costs each of them a prompt, and nothing else."""
        if self._store is None:
            return
        limit = AccountLimit(event.until, format_moment(self._clock()), self._run_id, event.resets_at, event.provider)
        with suppress(StorageFailed):
            await self._store.put(account_of(entry, event.agent), limit)

    async def find(self, entry: AgentDefinition, agent: str) -> QuotaHit | None:
        """Return the limit of an agent's account that another run met, as an event of this run."""
        if self._store is None:
            return None
        limit = None
        with suppress(StorageFailed):
            limit = await self._store.find(account_of(entry, agent))
        if limit is None or limit.run == self._run_id or limit.since <= self._ignored_until:
            return None
        if (parse_moment(limit.until) or 0.0) <= self._clock():
            return None
        how = f"run {limit.run}, which met the limit of the same account"
        return QuotaHit(agent=agent, until=limit.until, provider=limit.provider, resets_at=limit.resets_at, how=how)

    async def clear(self, entry: AgentDefinition, agent: str, since: str) -> None:
        """A turn that was sent at `since` succeeded: a limit that was met before is over."""
        if self._store is not None:
            with suppress(StorageFailed):
                await self._store.clear(account_of(entry, agent), since)


def account_of(entry: AgentDefinition, agent: str) -> str:
    """Identify the account that an agent uses, by its provider and a hash of the keys that it gets."""
    secrets = sorted(environment_for(entry).items())
    text = "\0".join((entry.provider or agent, *(f"{name}={value}" for name, value in secrets)))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]

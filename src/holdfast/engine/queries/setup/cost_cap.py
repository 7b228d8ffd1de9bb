"""The cost warning of a session, before it starts."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.state import RunState
from holdfast.core.summary.spending import cap_warning
from holdfast.engine.agents.matrix import read_matrix
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.session.cost_cap import agents_without_cost
from holdfast.leaf.errors import HoldfastError


async def cost_cap_warning(
    home: Home, run_id: str, flags: Mapping[str, Any], state: RunState | None = None
) -> str | None:
    """Return what a session of this run would warn about; None also if that is not known yet.

    Reads the log unless the caller knows the state already.
    """
    try:
        if state is None:
            state = (await view_run(home, run_id)).state
        config = run_config_for(home, state, flags)
    except (HoldfastError, OSError):
        return None  # the session itself reports what is wrong
    caps = config.settings.caps
    silent = agents_without_cost(state, config, read_matrix(home)) if caps.dollars is not None else []
    return cap_warning(caps.dollars, caps.tokens, silent) if caps.dollars is not None and silent else None

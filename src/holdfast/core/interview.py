"""The state of an interview: its newest plan, and the run that is prepared from it."""

import msgspec

from holdfast.core.events.plan import ProposedTask


class Interview(msgspec.Struct):
    """The newest plan of an interview, and the run that is prepared from it."""

    revision: int = 0
    overview: str = ""
    tasks: list[ProposedTask] = []
    seeds: list[str] = []
    by: str | None = None  # the person who changed it
    unheard: bool = False  # the interviewer was not told of that yet
    run_id: str | None = None  # of the accepted plan
    snapshot: str | None = None
    prepared: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether a run has to be prepared."""
        return self.run_id is not None and not self.prepared

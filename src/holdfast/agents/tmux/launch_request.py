"""What goes from us to the go-between, and from it to the program that becomes the agent."""

from collections.abc import Mapping

import msgspec

from holdfast.agents.launch import Berth

ORDER = "HOLDFAST_TMUX"  # the variable with the go-between's order: in its arguments anybody could read it


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An agent to be put into a window: where it works, and with what environment."""

    berth: Berth
    cwd: str
    environment: Mapping[str, str]
    marks: Mapping[str, str]
    tether: str | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run in a window: the whole of its environment, and the file by which it is found."""

    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    tether: str | None = None

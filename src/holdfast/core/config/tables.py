"""What all tables of a config file are made of.

TOML may write a duration as `90m` and a command as one text; here they are seconds and a tuple of words.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.core.config.durations import DURATION_PATTERN, MAX_DURATION_S

SPAN = {"written": "span"}
COMMAND = {"written": "command"}

Span = Annotated[float, Meta(ge=0, le=MAX_DURATION_S, extra=SPAN, extra_json_schema={"pattern": DURATION_PATTERN})]
Command = Annotated[tuple[str, ...], Meta(min_length=1, extra=COMMAND, extra_json_schema={"minLength": 1})]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Money = Annotated[float, Meta(ge=0, le=1e9)]


class SettingsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the config. Unknown keys are errors."""

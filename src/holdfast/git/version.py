"""Which git is there, and whether it can do what we ask of it."""

import os
import re
from typing import NamedTuple

from holdfast.git.process import Git

NEEDED = "merging without a worktree needs 2.38 or newer"
_OLDEST = (2, 38)


class Version(NamedTuple):
    said: str

    @property
    def fits(self) -> bool:
        return tuple(map(int, re.findall(r"\d+", self.said)[:2])) >= _OLDEST


async def installed() -> Version:
    return Version((await Git(os.sep).ask("version")).text)

"""The version of the installed git, and whether it is recent enough."""

import os
import re
from typing import NamedTuple

from holdfast.git.process import Git

REQUIREMENT = "merging without a worktree needs 2.38 or newer"
_MIN_VERSION = (2, 38)


class GitVersion(NamedTuple):
    text: str

    @property
    def is_supported(self) -> bool:
        return tuple(map(int, re.findall(r"\d+", self.text)[:2])) >= _MIN_VERSION


async def installed_version() -> GitVersion:
    return GitVersion((await Git(os.sep).query("version")).text)

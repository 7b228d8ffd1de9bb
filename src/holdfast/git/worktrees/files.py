"""The files of a checkout that git knows or would add."""

import os

from holdfast.git.process import Git


async def list_files(checkout: str) -> list[str]:
    """The tracked files, and the untracked ones that are not ignored, relative to `checkout`. Empty without one."""
    if not os.path.isdir(checkout):
        return []
    git = Git(checkout, stay_in_folder=True)
    answer = await git.query("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    return sorted(answer.fields())

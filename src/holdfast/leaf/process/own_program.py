"""Commands that start Holdfast's own programs.

`python -m` searches the current folder for modules first. Our programs often start in a worktree, where an agent or a
repository may have put a `json.py` or a `holdfast/`: it would run instead, outside of any sandbox. `-P` excludes the
current folder.
"""

import sys


def holdfast_command(*arguments: str, module: str = "holdfast") -> tuple[str, ...]:
    """The command that runs a module of ours with the current interpreter."""
    return (sys.executable, "-P", "-m", module, *arguments)

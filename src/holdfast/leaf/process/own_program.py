"""Commands that start Holdfast's own programs.

`python -m` looks for modules in the current folder first. Our programs often start in a worktree, where an agent or a
repository may have put a `json.py` or a `holdfast/`: it would run in their place, outside of any sandbox. `-P` leaves
that folder out.
"""

import sys


def own_program(*arguments: str, module: str = "holdfast") -> tuple[str, ...]:
    """Run a module of ours, by the interpreter that runs us."""
    return (sys.executable, "-P", "-m", module, *arguments)

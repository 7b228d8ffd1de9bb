"""Files by an agent's request: inside its worktree, and nowhere else, whatever the path says."""

import os

from holdfast.leaf.errors import Denied


def inside(root: str, path: str) -> str:
    """The real path of a file in the worktree; `Denied` when it is not in it, by `..`, by a link, or by its name."""
    home = os.path.realpath(root)
    real = os.path.realpath(os.path.join(home, path))
    if real != home and not real.startswith(f"{home}{os.sep}"):
        raise Denied(f"{path} is outside of {home}")
    if os.path.relpath(real, home).split(os.sep)[0] == ".git":
        raise Denied(f"{path} belongs to git, not to the work")
    return real


def read_text(root: str, path: str, line: int | None = None, limit: int | None = None) -> str:
    """A file's text, or so many lines of it from a line on (counted from 1)."""
    with open(inside(root, path), encoding="utf-8", errors="replace", newline="") as file:
        if line is None and limit is None:
            return file.read()
        first = max((line or 1) - 1, 0)
        lines = [
            text for number, text in enumerate(file) if number >= first and (limit is None or number < first + limit)
        ]
    return "".join(lines)


def write_text(root: str, path: str, content: str) -> None:
    real = inside(root, path)
    os.makedirs(os.path.dirname(real), exist_ok=True)
    with open(real, "w", encoding="utf-8", newline="") as file:
        file.write(content)

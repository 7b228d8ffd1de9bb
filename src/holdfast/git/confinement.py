"""How git works in a worktree whose files a confined agent can write.

Git runs programs: hooks, filters, merge drivers, and git itself in a repository inside the worktree, by that one's
config. The agent may have written any of them, or the files that they run. So each is started in the runtime of the
agent: hooks and nested repositories by wrappers in a folder of ours, filters and merge drivers by settings that win
over those of the user.
"""

import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.git.worktree_admin import pointed_at
from holdfast.leaf.errors import Denied

HOOKS_VARIABLE, WORKTREE_VARIABLE = "HOLDFAST_GIT_HOOKS", "HOLDFAST_GIT_WORKTREE"
HOOK = "--hook"  # the first word for the program that runs a hook inside, before the hook's path
COMMANDS = r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver)$"  # of the user's config

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
_WITH_HOOKS = frozenset({"commit", "merge", "worktree"})
_HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("pre-merge-commit", "post-merge", "post-checkout"),
)
_GIT_FOLDER, _HOOKS_FOLDER = "git-core", "hooks"
_SYMBOLIC = b"ref:"
_NOT_PLAIN = (
    "{path} is a link, or leads to another branch: a confined agent may have put it there, "
    "so git was not started; delete it, and try again"
)
_NESTED = """#!/bin/sh
# git starts its own children by this: those in a repository inside the worktree run where the agent does
unset GIT_EXEC_PATH
if [ "$GIT_DIR" = .git ] || { [ -z "$GIT_DIR" ] && [ "$(pwd -P)" != "$HOLDFAST_GIT_WORKTREE" ]; }; then
    exec {prefix} git "$@"
fi
PATH="${PATH#*:}"
exec git "$@"
"""
_HOOK = """#!/bin/sh
# runs the user's hook of this name where the agent does
hook="$HOLDFAST_GIT_HOOKS/${0##*/}"
[ -x "$hook" ] && [ -f "$hook" ] || exit 0
exec {prefix} {hook} "$hook" "$@"
"""


class WritableGit(NamedTuple):
    """What an agent that may commit can write to in the repository, beside the files of its worktree.

    Git writes to files there by their names. A link would lead it to a file of the user's, and a branch that stands
    for another one to a branch of the user's.
    """

    common_dir: str
    branches: str  # the folder of the run's branches: `refs/heads/holdfast/RUN`

    def must_be_plain(self, worktree: str | None = None) -> None:
        """Raises `Denied` where something is not a plain file or folder."""
        objects, refs = os.path.join(self.common_dir, "objects"), os.path.join(self.common_dir, self.branches)
        own = pointed_at(os.path.join(worktree, ".git"), "gitdir: ") if worktree is not None else None
        for folder in (refs, os.path.join(self.common_dir, "logs", self.branches), *([own] if own else [])):
            for parent, folders, files in os.walk(folder):
                for name in (*folders, *files):
                    _must_be_plain(os.path.join(parent, name), is_branch=folder == refs)
        with os.scandir(objects) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise Denied(_NOT_PLAIN.format(path=entry.path))


def _must_be_plain(path: str, *, is_branch: bool) -> None:
    try:
        mode = os.lstat(path).st_mode
        plain = stat.S_ISDIR(mode) or stat.S_ISREG(mode)
        if plain and is_branch and stat.S_ISREG(mode):
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                plain = not file.read(len(_SYMBOLIC)).startswith(_SYMBOLIC)
    except FileNotFoundError:  # a lock, which is gone
        return
    except OSError:
        plain = False
    if not plain:
        raise Denied(_NOT_PLAIN.format(path=path))


class Confinement(NamedTuple):
    """The words that start a program in the agent's runtime, with the variables they need; `folder` has the wrappers.

    Nobody who is confined can write to `folder`.
    """

    prefix: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    worktree: str
    writable: "WritableGit | None" = None

    def settings(self, arguments: tuple[str, ...], configured: list[tuple[str, str]]) -> tuple[str, ...]:
        """For a git command: the user's programs, as `configured`, are started inside."""
        hooks = ("-c", f"core.hooksPath={os.path.join(self.folder, _HOOKS_FOLDER)}")
        chosen = hooks if _subcommand(arguments) in _WITH_HOOKS else _NO_HOOKS
        wrapped = (("-c", f"{name}={self._wrapped(name, command)}") for name, command in configured if command)
        return (*chosen, "-c", "submodule.recurse=false", *(word for pair in wrapped for word in pair))

    def variables(self, hooks: str) -> dict[str, str]:
        """`hooks` is the folder of the user's hooks, for this worktree."""
        return {
            **self.environment,
            HOOKS_VARIABLE: hooks,
            WORKTREE_VARIABLE: os.path.realpath(self.worktree),
            "GIT_EXEC_PATH": os.path.join(self.folder, _GIT_FOLDER),
        }

    def _wrapped(self, name: str, command: str) -> str:
        """Git fills in paths for its placeholders, quoted: they become arguments of the shell inside."""
        marks = ("%O", "%A", "%B", "%L", "%P") if name.startswith("merge.") else ("%f",)
        inside = command
        for number, mark in enumerate(marks, start=1):
            inside = inside.replace(mark, f'"${number}"')
        given = " ".join(mark for mark in marks)
        return f"{shlex.join((*self.prefix, 'sh', '-c', inside, 'sh'))} {given if not name.endswith('process') else ''}"

    def prepare(self) -> None:
        """Write the wrappers, where they are not there yet. Raises `Denied` where git would be led elsewhere."""
        if self.writable is not None:
            self.writable.must_be_plain(self.worktree)
        prefix = shlex.join(self.prefix)
        _write(os.path.join(self.folder, _GIT_FOLDER, "git"), _NESTED.replace("{prefix}", prefix))
        for name in _HOOKS:
            text = _HOOK.replace("{prefix}", prefix).replace("{hook}", HOOK)
            _write(os.path.join(self.folder, _HOOKS_FOLDER, name), text)


def _subcommand(arguments: tuple[str, ...]) -> str:
    words = iter(arguments)
    for word in words:
        if word == "-c":
            next(words)
        elif not word.startswith("-"):
            return word
    return ""


def _write(path: str, text: str) -> None:
    """Whole or not at all: others may be about to run it."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{secrets.token_hex(4)}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)

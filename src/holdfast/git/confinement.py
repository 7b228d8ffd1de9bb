"""Runs git safely in a worktree that a confined agent can write to.

Git starts programs: hooks, filters, merge drivers, and git itself in nested repositories, with their configs. The
agent may have written any of these, or the files that they run. So each starts in the agent's runtime: hooks and
nested repositories through wrappers in a folder of ours, filters and merge drivers through settings that override
the user's.
"""

import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.git.worktree_admin import read_pointer
from holdfast.leaf.errors import Denied

HOOKS_VARIABLE, WORKTREE_VARIABLE = "HOLDFAST_GIT_HOOKS", "HOLDFAST_GIT_WORKTREE"
HOOK = "--hook"  # tells the program that runs commands inside that a hook's path follows
PROGRAM_SETTINGS = r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver)$"  # settings whose value git executes

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
_WITH_HOOKS = frozenset({"commit", "merge", "worktree"})
_HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    *("pre-merge-commit", "post-merge", "post-checkout"),
)
_GIT_FOLDER, _HOOKS_FOLDER = "git-core", "hooks"
_SYMBOLIC = b"ref:"
_NOT_PLAIN = (
    "{path} is a symbolic link or a symbolic ref. A confined agent may have created it, so git was not started; "
    "delete it and try again"
)
_NESTED = """#!/bin/sh
# git starts its own child processes through this wrapper: in a nested repository they run in the agent's runtime
unset GIT_EXEC_PATH
if [ "$GIT_DIR" = .git ] || { [ -z "$GIT_DIR" ] && [ "$(pwd -P)" != "$HOLDFAST_GIT_WORKTREE" ]; }; then
    exec {prefix} git "$@"
fi
PATH="${PATH#*:}"
exec git "$@"
"""
_HOOK = """#!/bin/sh
# runs the user's hook of this name in the agent's runtime
hook="$HOLDFAST_GIT_HOOKS/${0##*/}"
[ -x "$hook" ] && [ -f "$hook" ] || exit 0
exec {prefix} {hook} "$hook" "$@"
"""


class WritableGit(NamedTuple):
    """The part of the repository that an agent with commit rights can write to, besides the files of its worktree.

    Git opens these files by name. A symbolic link would redirect it to a file of the user, and a symbolic ref to a
    branch of the user.
    """

    common_dir: str
    branches: str  # the folder of the run's branches: `refs/heads/holdfast/RUN`

    def must_be_plain(self, worktree: str | None = None) -> None:
        """Raise `Denied` unless everything is a plain file or folder."""
        objects, refs = os.path.join(self.common_dir, "objects"), os.path.join(self.common_dir, self.branches)
        git_dir = read_pointer(os.path.join(worktree, ".git"), "gitdir: ") if worktree is not None else None
        for folder in (refs, os.path.join(self.common_dir, "logs", self.branches), *([git_dir] if git_dir else [])):
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
    except FileNotFoundError:  # a lock that was released meanwhile
        return
    except OSError:
        plain = False
    if not plain:
        raise Denied(_NOT_PLAIN.format(path=path))


class Confinement(NamedTuple):
    """The command prefix that starts a program in the agent's runtime, and the variables it needs.

    `folder` holds the wrappers. Confined processes cannot write to it.
    """

    prefix: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    worktree: str
    writable: "WritableGit | None" = None

    def settings(self, arguments: tuple[str, ...], configured: list[tuple[str, str]]) -> tuple[str, ...]:
        """Return the options with which a git command starts the `configured` programs in the agent's runtime."""
        wrapper_hooks = ("-c", f"core.hooksPath={os.path.join(self.folder, _HOOKS_FOLDER)}")
        hooks = wrapper_hooks if _subcommand(arguments) in _WITH_HOOKS else _NO_HOOKS
        wrapped = (("-c", f"{name}={self._wrap_command(name, command)}") for name, command in configured if command)
        return (*hooks, "-c", "submodule.recurse=false", *(option for pair in wrapped for option in pair))

    def variables(self, hooks: str) -> dict[str, str]:
        """Return the environment of a git command. `hooks` is the folder of the user's hooks for this worktree."""
        return {
            **self.environment,
            HOOKS_VARIABLE: hooks,
            WORKTREE_VARIABLE: os.path.realpath(self.worktree),
            "GIT_EXEC_PATH": os.path.join(self.folder, _GIT_FOLDER),
        }

    def _wrap_command(self, name: str, command: str) -> str:
        """Git replaces placeholders with quoted paths: pass them as arguments to the shell in the runtime."""
        placeholders = ("%O", "%A", "%B", "%L", "%P") if name.startswith("merge.") else ("%f",)
        script = command
        for number, placeholder in enumerate(placeholders, start=1):
            script = script.replace(placeholder, f'"${number}"')
        arguments = "" if name.endswith("process") else " ".join(placeholders)
        return f"{shlex.join((*self.prefix, 'sh', '-c', script, 'sh'))} {arguments}"

    def prepare(self) -> None:
        """Write missing wrappers. Raises `Denied` where a link would redirect git."""
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
    """Replace the file atomically: another process may be about to run it."""
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

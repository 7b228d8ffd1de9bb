"""Programs to stand before the real ones on PATH: a `git` that kills whoever called it, and a `gh` with a memory."""

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

# Counts the calls that change something; at the one that is asked for, its caller is killed: before it, or after it.
_DEADLY_GIT = """\
#!/bin/sh
for word in "$@"; do
  case "$word" in
    update-ref|commit-tree|write-tree|branch|push|fetch) changes=1 ;;
    add|remove|repair) [ "$command" = worktree ] && changes=1 ;;
  esac
  command=$word
done
if [ -n "$changes" ]; then
  echo "$*" >> "$GIT_CALLS"
  if [ "$(wc -l < "$GIT_CALLS")" = "$KILL_AT" ]; then
    [ "$KILL_WHEN" = after ] && {git} "$@" >/dev/null 2>&1
    kill -9 $PPID
    exit 1
  fi
fi
exec {git} "$@"
"""

_GH = """\
#!{python}
import json, os, signal, sys
path = os.environ["GH_STATE"]
state = json.load(open(path)) if os.path.exists(path) else {{"requests": [], "calls": []}}
arguments = sys.argv[1:]
state["calls"].append(arguments)
def option(name):
    return arguments[arguments.index(name) + 1] if name in arguments else None
def save():  # at once: it may be killed with who called it
    json.dump(state, open(path + ".new", "w"))
    os.replace(path + ".new", path)
save()
if os.environ.get("GH_FAILS"):
    sys.exit("gh: " + os.environ["GH_FAILS"])
if arguments[:2] == ["issue", "view"]:
    print(json.dumps({{"title": f"Issue {{arguments[2]}}", "body": "Words are counted wrongly."}}))
elif arguments[:2] == ["pr", "list"]:
    print(json.dumps([{{"url": r["url"]}} for r in state["requests"] if r["head"] == option("--head")]))
elif arguments[:2] == ["pr", "create"]:
    if os.environ.get("GH_KILLS") == "before":
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)
    url = f"https://github.com/me/my/pull/{{len(state['requests']) + 1}}"
    given = {{name: option("--" + name) for name in ("head", "base", "title", "body", "repo")}}
    state["requests"].append({{"url": url, "draft": "--draft" in arguments, **given}})
    save()
    if os.environ.get("GH_KILLS") == "after":
        os.kill(os.getppid(), signal.SIGKILL)
        sys.exit(1)
    print("Creating pull request\\n" + url if sys.stdout.isatty() else url)
else:
    sys.exit("gh: unknown command")
"""


class DeadlyGit:
    """What to run a program with so that it dies at its n-th change of a repository."""

    def __init__(self, folder: Path) -> None:
        real = shutil.which("git")
        assert real is not None
        _install(folder / "git", _DEADLY_GIT.replace("{git}", real))
        self._folder = folder
        self._calls = folder / "calls"

    def environment(self, at: int, when: str = "after") -> dict[str, str]:
        self._calls.write_text("")
        path = f"{self._folder}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "GIT_CALLS": str(self._calls), "KILL_AT": str(at), "KILL_WHEN": when}

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines()


class Gh:
    """A `gh` that opens pull requests in a file."""

    def __init__(self, folder: Path, python: str) -> None:
        _install(folder / "gh", _GH.format(python=python))
        self._state = folder / "gh.json"
        self.environment = {
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "GH_STATE": str(self._state),
        }

    @property
    def requests(self) -> list[Any]:
        return self._known("requests")

    @property
    def calls(self) -> list[Any]:
        return self._known("calls")

    def _known(self, what: str) -> list[Any]:
        found: list[Any] = json.loads(self._state.read_text())[what] if self._state.exists() else []
        return found


def _install(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)

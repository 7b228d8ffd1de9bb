"""Remotes: bringing a branch there, never by force, and asking for it to be merged."""

import json
import os
import re
import shutil
from typing import NamedTuple
from urllib.parse import quote

from holdfast.git.process import LONG, Answer, Git, GitFailed, run_program
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput, HoldfastError

_WEB = re.compile(
    r"^(?:ssh://|https?://|git://)?(?:[^@/]+@)?(?P<host>[^:/]+)(?::\d+(?=/))?[:/](?P<path>.+?)(?:\.git)?/?$"
)


class Request(NamedTuple):
    """What to ask for."""

    branch: str
    base: str
    title: str
    body: str
    draft: bool


async def choose_remote(repository: Repository, name: str | None) -> str:
    """The remote that is asked for, else the only one, else `origin`."""
    remotes = await repository.remotes()
    if name is not None and name not in remotes:
        raise BadInput(f"there is no remote {name!r}; there {_are(remotes)}")
    if name is None and len(remotes) != 1 and "origin" not in remotes:
        raise BadInput(f"which remote? There {_are(remotes)}; name one with --remote, or add one with git remote add")
    return name or (remotes[0] if len(remotes) == 1 else "origin")


def _are(remotes: list[str]) -> str:
    return f"are {', '.join(remotes)}" if len(remotes) > 1 else f"is {remotes[0]}" if remotes else "are none"


async def push(git: Git, remote: str, branch: str, commit: str) -> None:
    await git.do("push", "--porcelain", remote, f"{commit}:refs/heads/{branch}")


async def pushed(repository: Repository, remote: str, branch: str) -> str | None:
    """The commit that a branch of the remote is at; None when it has no such branch."""
    answer = await repository.git.ask("ls-remote", "--heads", remote, f"refs/heads/{branch}", limit=LONG)
    return answer.text.partition("\t")[0] or None


async def folder_of(repository: Repository, remote: str) -> str | None:
    """The git directory of a remote that is a folder of this machine; None when it is anywhere else."""
    answer = await repository.git.run("remote", "get-url", "--push", remote)
    path = answer.text.removeprefix("file://")
    if answer.code or not os.path.isabs(path):
        return None
    found = (folder for folder in (os.path.join(path, ".git"), path) if os.path.isdir(os.path.join(folder, "refs")))
    return next(found, None)


async def default_branch(repository: Repository, remote: str) -> str:
    """The branch that the remote's own HEAD is at."""
    answer = await repository.git.ask("ls-remote", "--symref", remote, "HEAD", limit=LONG)
    for line in answer.lines:
        target, _, name = line.removeprefix("ref: ").partition("\t")
        if line.startswith("ref: ") and name == "HEAD":
            return target.removeprefix("refs/heads/")
    return "main"


def can_open_pull_requests() -> bool:
    return shutil.which("gh") is not None


async def find_pull_request(repository: Repository, branch: str) -> str | None:
    """The address of the pull request from this branch, whatever became of it; None when there is none."""
    answer = await _gh(repository, "pr", "list", "--head", branch, "--state", "all", "--limit", "1", "--json", "url")
    try:
        found = json.loads(answer.out or b"[]")
        return str(found[0]["url"]) if found else None
    except (ValueError, LookupError, TypeError):
        raise HoldfastError(f"gh said something that is not a list of pull requests: {answer.text[:200]!r}") from None


async def open_pull_request(repository: Repository, request: Request) -> str:
    found = await find_pull_request(repository, request.branch)
    if found is not None:
        return found
    options = ["--head", request.branch, "--base", request.base, "--title", request.title, "--body", request.body]
    answer = await _gh(repository, "pr", "create", *options, *(["--draft"] if request.draft else []))
    return answer.lines[-1] if answer.lines else ""


async def compare_link(repository: Repository, remote: str, base: str, branch: str) -> str:
    """The page on which a person opens the pull request."""
    url = (await repository.git.ask("remote", "get-url", remote)).text
    match = _WEB.match(url)
    if match is None or os.path.isabs(url) or "." not in match["host"]:
        raise BadInput(f"{remote} is {url}, which is no web host: there is no pull request to open there")
    host, path, base, branch = match["host"], match["path"], quote(base), quote(branch)
    if "gitlab" in host:
        ask = f"merge_request%5Bsource_branch%5D={branch}&merge_request%5Btarget_branch%5D={base}"
        return f"https://{host}/{path}/-/merge_requests/new?{ask}"
    if "bitbucket" in host:
        return f"https://{host}/{path}/pull-requests/new?source={branch}&dest={base}"
    return f"https://{host}/{path}/compare/{base}...{branch}?expand=1"


async def _gh(repository: Repository, *arguments: str) -> Answer:
    answer = await run_program(
        "gh",
        *arguments,
        place=repository.common_dir,
        environment=repository.git.environment,
        tether=repository.tether,
    )
    if answer.code:
        raise GitFailed(" ".join(arguments[:2]), answer.code, answer.said, program="gh")
    return answer

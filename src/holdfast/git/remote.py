"""Remotes: bringing a branch there, never by force, and asking for it to be merged."""

import json
import os
import re
import shutil
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from holdfast.git.process import LONG, Answer, Git, GitFailed, Spot, run_program
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput, HoldfastError

_GARBAGE = (ValueError, LookupError, TypeError, RecursionError)  # of what is no JSON, or not the one that was asked for
_WEB = re.compile(
    r"(?:(?P<scheme>https?|ssh|git)://)?(?:[^@/]+@)?(?P<host>[^:/@]+)(?P<port>:\d+(?=/))?(?(scheme)/|:/?)"
    r"(?P<path>.+?)(?:\.git)?/*"
)


class Request(NamedTuple):
    """What to ask for. `repo` is host/owner/name; without one, gh finds it out, where there is one remote."""

    repo: str | None
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


async def fetch(repository: Repository, remote: str, branch: str) -> None:
    """The commits of a branch of the remote; no ref is made or moved for them."""
    quietly = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
    await repository.git.do("fetch", *quietly, remote, f"refs/heads/{branch}")


async def default_branch(repository: Repository, remote: str) -> str:
    """The branch that the remote's own HEAD is at."""
    answer = await repository.git.ask("ls-remote", "--symref", remote, "HEAD", limit=LONG)
    for line in answer.lines:
        target, _, name = line.removeprefix("ref: ").partition("\t")
        if line.startswith("ref: ") and name == "HEAD":
            return target.removeprefix("refs/heads/")
    return "main"


def can_open_pull_requests(link: str) -> bool:
    """True when `gh` is here, and the page is one of GitHub, or of the host that `gh` was told to use."""
    host = urlsplit(link).hostname or ""
    return shutil.which("gh") is not None and ("github" in host or host == os.environ.get("GH_HOST"))


async def find_pull_request(repository: Repository, repo: str | None, branch: str) -> str | None:
    """The address of the pull request from this branch, whatever became of it; None when there is none."""
    options = ["--head", branch, "--state", "all", "--limit", "1", "--json", "url", *_in(repo)]
    answer = await _gh(repository, "pr", "list", *options)
    try:
        found = json.loads(answer.out or b"[]")
        return str(found[0]["url"]) if found else None
    except _GARBAGE:
        raise HoldfastError(f"gh said something that is not a list of pull requests: {answer.text[:200]!r}") from None


async def open_pull_request(repository: Repository, request: Request) -> str:
    found = await find_pull_request(repository, request.repo, request.branch)
    if found is not None:
        return found
    options = ["--head", request.branch, "--base", request.base, "--title", request.title, "--body", request.body]
    answer = await _gh(
        repository, "pr", "create", *options, *(["--draft"] if request.draft else []), *_in(request.repo)
    )
    return answer.lines[-1] if answer.lines else ""


async def read_issue(repository: Repository, number: int) -> tuple[str, str]:
    """Title and text of an issue, by `gh`."""
    if shutil.which("gh") is None:
        raise BadInput("gh is not here, by which issues are read; install it (https://cli.github.com), or say the goal")
    answer = await _gh(repository, "issue", "view", str(number), "--json", "title,body")
    try:
        found = json.loads(answer.out)
        return _sound(str(found["title"])), _sound(str(found["body"] or ""))
    except _GARBAGE:
        raise HoldfastError(f"gh said something that is no issue: {answer.text[:200]!r}") from None


def _sound(text: str) -> str:
    """Text that can be written down everywhere: JSON may hold halves of characters, and NUL."""
    return text.replace("\0", "�").encode(errors="replace").decode()


def _in(repo: str | None) -> list[str]:
    return ["--repo", repo] if repo is not None else []


async def web_repository(repository: Repository, remote: str) -> str:
    """host/owner/name of a remote."""
    match = await _web_address(repository, remote)
    return f"{match['host']}/{match['path']}"


async def compare_link(repository: Repository, remote: str, base: str, branch: str) -> str:
    """The page on which a person opens the pull request."""
    match = await _web_address(repository, remote)
    host, path, base, branch = match["host"], quote(match["path"], safe="/~%"), quote(base), quote(branch)
    web = match["scheme"] in ("http", "https")  # the port of any other is not that of the pages
    place = f"{match['scheme']}://{host}{match['port'] or ''}/{path}" if web else f"https://{host}/{path}"
    if "gitlab" in host:
        ask = f"merge_request%5Bsource_branch%5D={branch}&merge_request%5Btarget_branch%5D={base}"
        return f"{place}/-/merge_requests/new?{ask}"
    if "bitbucket" in host:
        return f"{place}/pull-requests/new?source={branch}&dest={base}"
    return f"{place}/compare/{base}...{branch}?expand=1"


async def _web_address(repository: Repository, remote: str) -> re.Match[str]:
    """Where a remote is, as git rewrites it (`url.<base>.insteadOf`), or as it is written."""
    rewritten = (await repository.git.ask("remote", "get-url", remote)).text
    written = (await repository.git.run("config", f"remote.{remote}.url")).text
    for url in (rewritten, written):
        match = _WEB.fullmatch(url)
        if match is not None and "." in match["host"]:
            return match
    raise BadInput(f"{remote} is {rewritten}, which is no web host: there is no pull request to open there")


async def _gh(repository: Repository, *arguments: str) -> Answer:
    at = Spot(repository.common_dir, repository.git.environment, repository.tether)
    answer = await run_program("gh", *arguments, at=at)
    if answer.code:
        raise GitFailed(" ".join(arguments[:2]), answer.code, answer.said, program="gh")
    return answer

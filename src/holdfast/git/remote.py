"""Remotes: push a branch, never with force, and open a pull request."""

import json
import os
import re
import shutil
from copy import copy
from typing import NamedTuple

from holdfast.git.process import CHANGE_TIMEOUT_S, Git, GitFailed, ProcessContext, ProgramOutput, run_program
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput, HoldfastError

_PARSE_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    RecursionError,
)  # for invalid JSON, and for JSON of another shape
_REMOTE_URL = re.compile(
    r"(?:(?P<scheme>https?|ssh|git)://)?(?:[^@/]+@)?(?P<host>[^:/@]+)(?P<port>:\d+(?=/))?(?(scheme)/|:/?)"
    r"(?P<path>.+?)(?:\.git)?/*"
)


class PullRequestSpec(NamedTuple):
    """A pull request to open. `repo` is host/owner/name; without it, gh uses the only remote."""

    repo: str | None
    branch: str
    base: str
    title: str
    body: str
    draft: bool


async def choose_remote(repository: Repository, name: str | None) -> str:
    """Return the named remote, else the only one, else `origin`."""
    remotes = await repository.remotes()
    if name is not None and name not in remotes:
        raise BadInput(f"there is no remote {name!r}; {_describe_remotes(remotes)}")
    if name is None and len(remotes) != 1 and "origin" not in remotes:
        raise BadInput(
            f"which remote? {_describe_remotes(remotes)}; choose one with --remote, or add one with git remote add"
        )
    return name or (remotes[0] if len(remotes) == 1 else "origin")


def _describe_remotes(remotes: list[str]) -> str:
    return f"remotes: {', '.join(remotes)}" if remotes else "the repository has no remotes"


async def push(git: Git, repository: Repository, remote: str, branch: str, commit: str) -> None:
    environment = await _environment_for(repository, remote)
    await git.execute("push", "--porcelain", remote, f"{commit}:refs/heads/{branch}", extra_env=environment)


async def remote_branch_commit(repository: Repository, remote: str, branch: str) -> str | None:
    """Return the tip of a branch on the remote; None when the remote has no such branch."""
    answer = await (await _git_for(repository, remote)).query(
        "ls-remote", "--heads", remote, f"refs/heads/{branch}", timeout_s=CHANGE_TIMEOUT_S
    )
    return answer.text.partition("\t")[0] or None


async def remote_url(repository: Repository, remote: str) -> str:
    """Return the URL to which pushes go; a folder of this machine by its absolute path."""
    url = (await repository.git.query("remote", "get-url", "--push", remote)).text
    return _absolute(repository, url) or url


async def remote_folder(repository: Repository, remote: str) -> str | None:
    """Return the git directory of a remote that is a folder on this machine; None for any other remote."""
    answer = await repository.git.run("remote", "get-url", "--push", remote)
    path = _absolute(repository, answer.text) or answer.text.removeprefix("file://")
    if answer.code or not os.path.isabs(path):
        return None
    found = (folder for folder in (os.path.join(path, ".git"), path) if os.path.isdir(os.path.join(folder, "refs")))
    return next(found, None)


async def fetch(repository: Repository, remote: str, branch: str) -> None:
    """Fetch the commits of a remote branch without creating or moving a ref."""
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=")
    await (await _git_for(repository, remote)).execute("fetch", *options, remote, f"refs/heads/{branch}")


async def _git_for(repository: Repository, remote: str) -> Git:
    git = copy(repository.git)
    git.environment = {**git.environment, **await _environment_for(repository, remote)}
    return git


async def _environment_for(repository: Repository, remote: str) -> dict[str, str]:
    """Return what makes git find a remote whose URL is a relative path.

    Git resolves it in the folder where it runs, which for the user is the main checkout, and for us another.
    """
    urls: list[str] = []
    for options in ((), ("--push",)):
        answer = await repository.git.run("remote", "get-url", "--all", *options, remote)
        urls += answer.lines if answer.code == 0 else []
    paths = {url: path for url in urls if (path := _absolute(repository, url)) is not None}
    count = os.environ.get("GIT_CONFIG_COUNT", "0")
    first = int(count) if count.isdecimal() else 0
    variables: dict[str, str] = {}
    for number, (url, path) in enumerate(paths.items(), start=first):
        variables |= {
            "GIT_CONFIG_COUNT": str(number + 1),
            f"GIT_CONFIG_KEY_{number}": f"url.{path}.insteadOf",
            f"GIT_CONFIG_VALUE_{number}": url,
        }
    return variables


def _absolute(repository: Repository, url: str) -> str | None:
    """Return the absolute path of a URL that is a relative path; None for any other URL."""
    if not url or os.path.isabs(url) or ":" in url.partition("/")[0]:  # `host:path`, `https://…`
        return None
    common_dir = repository.common_dir
    top = os.path.dirname(common_dir) if os.path.basename(common_dir) == ".git" else common_dir
    return os.path.normpath(os.path.join(top, url))


async def default_branch(repository: Repository, remote: str) -> str:
    """Return the branch that the remote's HEAD points to."""
    git = await _git_for(repository, remote)
    answer = await git.query("ls-remote", "--symref", remote, "HEAD", timeout_s=CHANGE_TIMEOUT_S)
    for line in answer.lines:
        target, _, name = line.removeprefix("ref: ").partition("\t")
        if line.startswith("ref: ") and name == "HEAD":
            return target.removeprefix("refs/heads/")
    return "main"


def can_open_pull_requests(link: str) -> bool:
    """True when `gh` is installed, and the link is on GitHub or on the host in GH_HOST."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - slow to import; few sessions have a link to a request

    host = urlsplit(link).hostname or ""
    return shutil.which("gh") is not None and ("github" in host or host == os.environ.get("GH_HOST"))


async def find_pull_request(repository: Repository, repo: str | None, branch: str) -> str | None:
    """Return the URL of the pull request from this branch, open or not; None when there is none."""
    options = ["--head", branch, "--state", "all", "--limit", "1", "--json", "url", *_repo_option(repo)]
    answer = await _run_gh(repository, "pr", "list", *options)
    try:
        found = json.loads(answer.stdout or b"[]")
        return str(found[0]["url"]) if found else None
    except _PARSE_ERRORS:
        raise HoldfastError(
            f"gh printed something that is not a list of pull requests: {answer.text[:200]!r}"
        ) from None


async def open_pull_request(repository: Repository, spec: PullRequestSpec) -> str:
    found = await find_pull_request(repository, spec.repo, spec.branch)
    if found is not None:
        return found
    options = ["--head", spec.branch, "--base", spec.base, "--title", spec.title, "--body", spec.body]
    answer = await _run_gh(
        repository, "pr", "create", *options, *(["--draft"] if spec.draft else []), *_repo_option(spec.repo)
    )
    return answer.lines[-1] if answer.lines else ""


async def read_issue(repository: Repository, number: int) -> tuple[str, str]:
    """Return title and text of an issue, read with `gh`."""
    if shutil.which("gh") is None:
        raise BadInput(
            "gh was not found, which reads issues; install it (https://cli.github.com), or write the goal instead"
        )
    answer = await _run_gh(repository, "issue", "view", str(number), "--json", "title,body")
    try:
        found = json.loads(answer.stdout)
        return _sanitize(str(found["title"])), _sanitize(str(found["body"] or ""))
    except _PARSE_ERRORS:
        raise HoldfastError(f"gh printed something that is not an issue: {answer.text[:200]!r}") from None


def _sanitize(text: str) -> str:
    """Replace what cannot be stored everywhere: JSON may hold lone surrogates and NUL."""
    return text.replace("\0", "�").encode(errors="replace").decode()


def _repo_option(repo: str | None) -> list[str]:
    return ["--repo", repo] if repo is not None else []


async def web_repository(repository: Repository, remote: str) -> str:
    """Return host/owner/name of a remote."""
    match = await _match_remote_url(repository, remote)
    return f"{match['host']}/{match['path']}"


async def compare_link(repository: Repository, remote: str, base: str, branch: str) -> str:
    """Return the web page where a person opens the pull request."""
    from urllib.parse import quote  # noqa: PLC0415 - as above

    match = await _match_remote_url(repository, remote)
    host, path, base, branch = match["host"], quote(match["path"], safe="/~%"), quote(base), quote(branch)
    is_web = match["scheme"] in ("http", "https")  # another scheme's port is not the web server's
    page = f"{match['scheme']}://{host}{match['port'] or ''}/{path}" if is_web else f"https://{host}/{path}"
    if "gitlab" in host:
        query = f"merge_request%5Bsource_branch%5D={branch}&merge_request%5Btarget_branch%5D={base}"
        return f"{page}/-/merge_requests/new?{query}"
    if "bitbucket" in host:
        return f"{page}/pull-requests/new?source={branch}&dest={base}"
    return f"{page}/compare/{base}...{branch}?expand=1"


async def _match_remote_url(repository: Repository, remote: str) -> re.Match[str]:
    """Match the URL of a remote as git rewrites it (`url.<base>.insteadOf`), else as configured."""
    rewritten = (await repository.git.query("remote", "get-url", remote)).text
    configured = (await repository.git.run("config", f"remote.{remote}.url")).text
    for url in (rewritten, configured):
        match = _REMOTE_URL.fullmatch(url)
        if match is not None and "." in match["host"]:
            return match
    raise BadInput(f"cannot open a pull request: the remote {remote} is {rewritten}, which is not a web host")


async def _run_gh(repository: Repository, *arguments: str) -> ProgramOutput:
    context = ProcessContext(repository.common_dir, repository.git.environment, repository.fd_marker)
    answer = await run_program("gh", *arguments, context=context)
    if answer.code:
        raise GitFailed(" ".join(arguments[:2]), answer.code, answer.stderr, program="gh")
    return answer

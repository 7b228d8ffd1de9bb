import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.support.memory import in_memory
from tests.support.repositories import UserRepository, git, put

NewRepository = Callable[..., UserRepository]


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder where a sync costs nothing: git and Holdfast sync a lot, and no power is cut here."""
    with in_memory() as path:
        yield os.path.realpath(path)


@pytest.fixture
def home(folder: str) -> str:
    return os.path.join(folder, "home")


@pytest.fixture(autouse=True)
def alone(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git as somebody has it who set no more than a name: nothing of this machine's own config or environment."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    people = os.path.join(folder, "people")
    put(people, {".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"})
    monkeypatch.setenv("HOME", people)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(scope="session")
def template() -> Iterator[str]:
    """A repository whose user has work of every kind lying about."""
    with in_memory() as path:
        alone = {"HOME": path, "GIT_CONFIG_NOSYSTEM": "1"}

        def user(*arguments: str) -> None:
            named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
            git(os.path.join(path, "repo"), *named, *arguments, more=alone)

        git(path, "init", "--quiet", "--initial-branch=main", "repo", more=alone)
        repo = os.path.join(path, "repo")
        put(repo, {"a.txt": "1\n2\n3\n", "b.txt": "b\n", "src/c.py": "c = 1\n", ".gitignore": "*.log\n"})
        user("add", "--all")
        user("commit", "--quiet", "--message=Begin")
        user("branch", "other")
        put(repo, {"b.txt": "stashed\n"})
        user("stash", "push", "--quiet")
        put(repo, {"a.txt": "1\nthe user's\n3\n", "mine.txt": "mine\n", "staged.txt": "staged\n", "x.log": "ignored\n"})
        user("add", "staged.txt")
        yield repo


@pytest.fixture
def new_repository(folder: str) -> Iterator[NewRepository]:
    """Makes repositories with one commit. What is their users' own must be as it was at the end."""
    made: list[UserRepository] = []

    def make(name: str = "made", *options: str, files: dict[str, str | bytes] | None = None) -> UserRepository:
        path = os.path.join(folder, name)
        os.makedirs(path, exist_ok=True)
        git(path, "init", "--quiet", *options)
        put(path, files or {"a.txt": "1\n2\n3\n"})
        git(path, "add", "--all")
        git(path, "commit", "--quiet", "--message=Begin")
        made.append(UserRepository(path))
        return made[-1]

    yield make
    for repository in made:
        repository.must_be_untouched()


@pytest.fixture
def repo(folder: str, template: str) -> Iterator[UserRepository]:
    path = os.path.join(folder, "repo")
    shutil.copytree(template, path, symlinks=True)
    repository = UserRepository(path)
    yield repository
    repository.must_be_untouched()

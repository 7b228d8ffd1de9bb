"""Facts of files that a repository supplies: read inside it, or not at all."""

from pathlib import Path

import pytest

from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.supplied import read_repository_file, repository_root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "inner").mkdir()
    (tmp_path / "secret").write_text("private key")
    (tmp_path / "repo" / "plain").write_text("plain")
    return tmp_path / "repo"


@pytest.mark.parametrize("target", ["../secret", "{absolute}", "inner/../../secret"])
def test_link_out_of_the_repository_is_refused(repository: Path, target: str) -> None:
    link = repository / "link"
    link.symlink_to(target.format(absolute=repository.parent / "secret"))
    with pytest.raises(BadInput, match="leads out of the repository"):
        read_repository_file(str(link), 100)


def test_folder_that_links_out_is_refused(repository: Path) -> None:
    (repository / "folder").symlink_to("..")
    with pytest.raises(BadInput, match="leads out of the repository"):
        read_repository_file(str(repository / "folder" / "secret"), 100)


def test_link_within_the_repository_is_followed(repository: Path) -> None:
    (repository / "inner" / "link").symlink_to("../plain")
    assert read_repository_file(str(repository / "inner" / "link"), 100) == b"plain"


def test_repository_reached_through_a_link_is_read(repository: Path) -> None:
    """A checkout whose own path holds a link, as a home on another disk, is no link out of it."""
    (repository.parent / "elsewhere").symlink_to("repo")
    assert read_repository_file(str(repository.parent / "elsewhere" / "plain"), 100) == b"plain"


def test_files_of_git_itself_are_refused(repository: Path) -> None:
    (repository / ".git" / "config").write_text("[core]")
    (repository / "settings").symlink_to(".git/config")
    with pytest.raises(BadInput, match="belongs to git"):
        read_repository_file(str(repository / "settings"), 100)


def test_file_outside_of_any_repository_is_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to("target")
    assert read_repository_file(str(tmp_path / "link"), 2) == b"mi"
    assert repository_root(str(tmp_path)) is None

"""Facts of files by request: inside the worktree, plain ones, and none of git's."""

import os
import subprocess

import pytest

from holdfast.agents.confined import inside, read_text, write_text
from holdfast.agents.descent import folder_of
from holdfast.leaf.errors import Denied


@pytest.fixture
def root(tmp_path: os.PathLike[str]) -> str:
    folder = os.path.join(tmp_path, "work")
    os.makedirs(folder)
    subprocess.run(["git", "init", "-q", folder], check=True)
    with open(os.path.join(tmp_path, "secret"), "w", encoding="utf-8") as file:
        file.write("secret")
    os.symlink("../secret", os.path.join(folder, "link"))
    os.symlink("..", os.path.join(folder, "up"))
    os.symlink(".git", os.path.join(folder, "repository"))
    os.symlink("../nothing", os.path.join(folder, "dangling"))
    os.makedirs(os.path.join(tmp_path, "work-of-another"))
    return folder


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "link",
        "up/secret",
        "dangling",
        "../work-of-another/file",
        ".git/config",
        ".git",
        "a/../.git/hooks/pre-commit",
        "repository/config",
        "module/.git/hooks/pre-commit",
        "a\0b",
    ],
)
def test_a_path_that_leaves_the_work_is_denied(root: str, path: str) -> None:
    for attempt in (lambda: read_text(root, path), lambda: write_text(root, path, "x"), lambda: inside(root, path)):
        with pytest.raises(Denied):
            attempt()
    assert not os.path.exists(os.path.join(root, "../nothing"))


def test_paths_in_the_work_are_allowed_relative_or_not(root: str) -> None:
    write_text(root, "new/folder/a.txt", "one\r\ntwo\n")
    assert read_text(root, os.path.join(root, "new/folder/a.txt")) == "one\r\ntwo\n"
    assert inside(root, ".gitignore") == os.path.join(os.path.realpath(root), ".gitignore")
    assert inside(root, root) == os.path.realpath(root)


def test_a_worktree_behind_a_link_is_the_same_one(root: str, tmp_path: os.PathLike[str]) -> None:
    alias = os.path.join(tmp_path, "alias")
    os.symlink(root, alias)
    write_text(alias, os.path.join(alias, "a"), "x")
    assert read_text(root, os.path.join(alias, "a")) == "x"


def test_a_shorter_text_leaves_nothing_of_the_longer_one(root: str) -> None:
    write_text(root, "a", "a long text")
    write_text(root, "a", "short")
    assert read_text(root, "a") == "short"


def test_lines_are_counted_from_one(root: str) -> None:
    write_text(root, "a", "1\n2\n3\n4\n")
    assert read_text(root, "a", 2, 2) == "2\n3\n"
    assert read_text(root, "a", 3) == "3\n4\n"
    assert read_text(root, "a", None, 1) == "1\n"
    assert read_text(root, "a", 9, 1) == ""
    assert read_text(root, "a", 0, 0) == ""


def test_bytes_that_are_no_text_are_read_with_marks(root: str) -> None:
    with open(os.path.join(root, "a"), "wb") as file:
        file.write(b"caf\xe9\n")
    assert read_text(root, "a") == "caf�\n"


def test_a_pipe_in_a_files_place_makes_nobody_wait(root: str) -> None:
    os.mkfifo(os.path.join(root, "pipe"))
    with pytest.raises(Denied):
        read_text(root, "pipe")
    with pytest.raises((Denied, OSError)):
        write_text(root, "pipe", "x")


def test_a_folder_is_no_file(root: str) -> None:
    os.makedirs(os.path.join(root, "folder"))
    with pytest.raises((Denied, OSError)):
        read_text(root, "folder")
    with pytest.raises((Denied, OSError)):
        write_text(root, "folder", "x")


def test_a_file_too_long_to_be_given_whole_is_given_in_pieces(root: str) -> None:
    write_text(root, "a", "first\n")
    os.truncate(os.path.join(root, "a"), 100 * 1024 * 1024)
    with pytest.raises(Denied, match="line and limit"):
        read_text(root, "a")
    assert read_text(root, "a", 1, 1) == "first\n"


def test_a_missing_file_is_named(root: str) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_text(root, "nowhere")
    assert str(raised.value.filename).endswith("nowhere")


@pytest.mark.parametrize("make", [True, False])
def test_a_link_that_comes_between_the_look_and_the_deed_leads_nowhere(root: str, make: bool) -> None:
    with pytest.raises(NotADirectoryError), folder_of(root, os.path.join(root, "up", "secret"), make=make):
        pass

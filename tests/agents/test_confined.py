"""Facts of files by request: inside the worktree, plain ones, and none of git's."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.fixture(params=["complete before it has a name", "named at once"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that knows files without a name, and on one that does not."""
    if request.param == "named at once":

        def link(*_: object, **__: object) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(os, "link", link)


@pytest.mark.usefixtures("way")
def test_a_text_that_does_not_fit_leaves_the_old_one_and_nothing_else(root: str) -> None:
    write_text(root, "a", "old")
    there = sorted(os.listdir(root))
    for name in ("a", "new"):
        with no_file_longer_than(5), pytest.raises(OSError, match="File too large"):
            write_text(root, name, "a text that is too long")
    assert read_text(root, "a") == "old"
    assert sorted(os.listdir(root)) == there


def test_a_death_in_the_middle_leaves_the_old_text_and_nothing_else(root: str) -> None:
    write_text(root, "a", "old")
    there = sorted(os.listdir(root))
    dying = f"""
import os, signal
from holdfast.agents.confined import write_text
os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
write_text({root!r}, "a", "new")
"""
    assert subprocess.run([sys.executable, "-c", dying], check=False).returncode == -signal.SIGKILL
    assert read_text(root, "a") == "old"
    assert sorted(os.listdir(root)) == there


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640])
def test_a_file_keeps_its_mode(root: str, mode: int) -> None:
    write_text(root, "a", "old")
    os.chmod(os.path.join(root, "a"), mode)
    write_text(root, "a", "new")
    assert stat.S_IMODE(os.stat(os.path.join(root, "a")).st_mode) == mode
    assert read_text(root, "a") == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_keeps_its_owner(root: str) -> None:
    write_text(root, "a", "old")
    os.chown(os.path.join(root, "a"), 1234, 4321)
    write_text(root, "a", "new")
    about = os.stat(os.path.join(root, "a"))
    assert (about.st_uid, about.st_gid) == (1234, 4321)


def test_a_new_file_has_the_mode_of_any_other(root: str) -> None:
    write_text(root, "a", "x")
    with open(os.path.join(root, "b"), "w", encoding="ascii"):
        pass
    modes = {stat.S_IMODE(os.stat(os.path.join(root, name)).st_mode) for name in "ab"}
    assert len(modes) == 1


def test_a_link_stays_and_what_it_leads_to_is_written(root: str) -> None:
    write_text(root, "folder/a", "old")
    os.symlink("folder/a", os.path.join(root, "to-a"))
    os.symlink("folder/b", os.path.join(root, "to-b"))
    for name in ("a", "b"):
        write_text(root, f"to-{name}", "new")
        assert os.path.islink(os.path.join(root, f"to-{name}"))
        assert read_text(root, f"folder/{name}") == "new"


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_a_name_may_be_as_long_as_names_can_be(root: str, name: str) -> None:
    write_text(root, name, "old")
    write_text(root, name, "new")
    assert read_text(root, name) == "new"


def test_a_file_in_a_folder_that_takes_no_new_ones_is_written_in_its_place(root: str) -> None:
    """By somebody who is not root: to root every folder is open."""
    write_text(root, "closed/a", "a long old text")
    closed = os.path.join(root, "closed")
    inode = os.stat(os.path.join(closed, "a")).st_ino
    os.chmod(os.path.join(closed, "a"), 0o666)
    os.chmod(closed, 0o555)
    folder = os.path.dirname(root)
    while folder != "/" and os.geteuid() == 0:
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
        folder = os.path.dirname(folder)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setresuid(65534, 65534, 65534)
            write_text(root, "closed/a", "new")
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing of it may go on as a second test run
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.chmod(closed, 0o755)
    assert code == 0
    assert read_text(root, "closed/a") == "new"
    assert os.listdir(closed) == ["a"]
    assert os.stat(os.path.join(closed, "a")).st_ino == inode


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


def test_a_line_without_an_end_is_not_given(root: str) -> None:
    write_text(root, "a", "one\n")
    os.truncate(os.path.join(root, "a"), 100 * 1024 * 1024)
    with pytest.raises(Denied, match="ask for fewer"):
        read_text(root, "a", 2, 1)


def test_lines_that_are_passed_over_take_no_memory(root: str) -> None:
    write_text(root, "a", "")
    os.truncate(os.path.join(root, "a"), 100 * 1024 * 1024)
    tracemalloc.start()
    try:
        assert read_text(root, "a", 2, 1) == ""
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_short_lines_take_not_many_times_the_memory_of_their_text(root: str) -> None:
    write_text(root, "a", "x\n" * 200_000)
    tracemalloc.start()
    try:
        assert len(read_text(root, "a", 1, 200_000)) == 400_000
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_line_too_far_away_is_not_looked_for(root: str) -> None:
    write_text(root, "a", "")
    os.truncate(os.path.join(root, "a"), 300 * 1024 * 1024)
    with pytest.raises(Denied, match="line 2 of a lies beyond"):
        read_text(root, "a", 2, 1)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("length", range(64 * 1024 - 2, 64 * 1024 + 2))
def test_long_lines_are_counted_by_their_ends(root: str, length: int, end: str) -> None:
    lines = [f"{'x' * length}{end}", end, f"y{end}", "z"]
    write_text(root, "a", "".join(lines))
    for number, line in enumerate(lines, 1):
        assert read_text(root, "a", number, 1) == line
    assert read_text(root, "a") == "".join(lines)


def test_a_missing_file_is_named(root: str) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_text(root, "nowhere")
    assert str(raised.value.filename).endswith("nowhere")


@pytest.mark.parametrize("make", [True, False])
def test_a_link_that_comes_between_the_look_and_the_deed_leads_nowhere(root: str, make: bool) -> None:
    with pytest.raises(NotADirectoryError), folder_of(root, os.path.join(root, "up", "secret"), make=make):
        pass

"""Facts of files by request: inside the worktree, plain ones, and none of git's."""

import errno
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.agents.acp.file_access import read_text, write_text
from holdfast.agents.acp.replace_file import FileMetadata, replace_file
from holdfast.core.work.names import is_temporary_name
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.contained import open_parent_folder, resolve_inside


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
    for attempt in (
        lambda: read_text(root, path),
        lambda: write_text(root, path, "x"),
        lambda: resolve_inside(root, path),
    ):
        with pytest.raises(Denied):
            attempt()
    assert not os.path.exists(os.path.join(root, "../nothing"))


def test_paths_in_the_work_are_allowed_relative_or_not(root: str) -> None:
    write_text(root, "new/folder/a.txt", "one\r\ntwo\n")
    assert read_text(root, os.path.join(root, "new/folder/a.txt")) == "one\r\ntwo\n"
    assert resolve_inside(root, ".gitignore") == os.path.join(os.path.realpath(root), ".gitignore")
    assert resolve_inside(root, root) == os.path.realpath(root)


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


def die_over(root: str, name: str, where: str) -> int:
    """Write to a file in another process, which dies at such a call. Returns its exit code."""
    dying = f"""
import os, signal
from holdfast.agents.acp.file_access import write_text
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
{where}
write_text({root!r}, {name!r}, "new")
"""
    return subprocess.run([sys.executable, "-c", dying], check=False).returncode


def test_a_death_in_the_middle_leaves_the_old_text_and_nothing_else(root: str) -> None:
    write_text(root, "a", "old")
    there = sorted(os.listdir(root))
    assert die_over(root, "a", "os.fsync = die") == -signal.SIGKILL
    assert read_text(root, "a") == "old"
    assert sorted(os.listdir(root)) == there


@pytest.mark.parametrize(
    "where",
    ["os.rename = die", "os.O_TMPFILE = 0; os.fsync = die"],
    ids=["as it takes the place of another", "where each file has a name"],
)
def test_what_a_death_leaves_beside_the_old_text_is_known_by_its_name(root: str, where: str) -> None:
    write_text(root, "a", "old")
    there = set(os.listdir(root))
    assert die_over(root, "a", where) == -signal.SIGKILL
    assert read_text(root, "a") == "old"
    (left,) = set(os.listdir(root)) - there
    assert is_temporary_name(left)


def test_a_file_that_takes_nobodys_place_never_has_another_name(root: str) -> None:
    there = set(os.listdir(root))
    assert die_over(root, "new", "os.rename = die") == 0
    assert set(os.listdir(root)) - there == {"new"}
    assert read_text(root, "new") == "new"


@pytest.mark.usefixtures("way")
def test_a_file_that_came_meanwhile_is_replaced_all_the_same(root: str) -> None:
    write_text(root, "a", "of another")
    there = sorted(os.listdir(root))
    with open_parent_folder(root, os.path.join(root, "a"), make=False) as (folder, name):
        replace_file(folder, name, b"ours")
    assert read_text(root, "a") == "ours"
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


ACCESS_LIST = "system.posix_acl_access"
EVERY, OWNER, USER, GROUP, MASK, OTHER = 0xFFFFFFFF, 0x01, 0x02, 0x04, 0x10, 0x20


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """As the kernel has it, of kinds, rights and ids."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


GROUP_HAS_NOTHING = access_list(
    (OWNER, 6, EVERY), (USER, 6, 1234), (GROUP, 0, EVERY), (MASK, 6, EVERY), (OTHER, 0, EVERY)
)


def give(path: str, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"NOT TESTED: {name} (this file system refuses it: {error.strerror})")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("name", "value"), [("user.note", b"\0 of somebody"), (ACCESS_LIST, GROUP_HAS_NOTHING)])
def test_a_file_keeps_its_attributes(disk: Path, name: str, value: bytes) -> None:
    path = str(disk / "a")
    write_text(str(disk), "a", "old")
    give(path, name, value)
    mode = os.stat(path).st_mode
    write_text(str(disk), "a", "new")
    assert os.getxattr(path, name) == value
    assert os.stat(path).st_mode == mode
    assert read_text(str(disk), "a") == "new"


def test_a_file_closed_to_its_writers_keeps_its_attributes(disk: Path) -> None:
    path = str(disk / "a")
    write_text(str(disk), "a", "old")
    give(path, "user.note", b"of somebody")
    with open_parent_folder(str(disk), path, make=False) as (folder, name):
        like = FileMetadata(0o444, {"user.note": b"of somebody"}, None)
        replace_file(folder, name, b"new", like)
    assert os.getxattr(path, "user.note") == b"of somebody"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o444


def test_a_file_gets_no_access_list_of_its_folder_that_it_did_not_have(disk: Path) -> None:
    write_text(str(disk), "a", "old")
    give(str(disk), "system.posix_acl_default", GROUP_HAS_NOTHING)
    write_text(str(disk), "a", "new")
    write_text(str(disk), "b", "new")
    assert ACCESS_LIST not in os.listxattr(disk / "a")
    assert ACCESS_LIST in os.listxattr(disk / "b")


def test_the_group_gains_nothing_where_an_access_list_cannot_be_kept(disk: Path) -> None:
    """As in a user namespace, where whom it names is nobody."""
    path = str(disk / "a")
    write_text(str(disk), "a", "old")
    give(path, ACCESS_LIST, GROUP_HAS_NOTHING)
    writing = (
        "from holdfast.agents.builtin.file_access import WorktreeFiles\n"
        f"WorktreeFiles({str(disk)!r}).write('a', b'new')"
    )
    command = ["unshare", "--map-root-user", sys.executable, "-c", writing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"NOT TESTED: an access list that cannot be kept (no user namespace here: {done.stderr.strip()})")
    assert done.stderr == ""
    assert read_text(str(disk), "a") == "new"
    assert ACCESS_LIST not in os.listxattr(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


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
            synced: list[int] = []
            os.fsync = lambda fd: synced.append(os.fstat(fd).st_ino)  # type: ignore[arg-type]
            write_text(root, "closed/a", "new")
            os._exit(0 if synced == [inode] else 2)
        except BaseException:  # noqa: BLE001 - nothing of it may go on as a second test run
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.chmod(closed, 0o755)
    assert code == 0
    assert read_text(root, "closed/a") == "new"
    assert os.listdir(closed) == ["a"]
    assert os.stat(os.path.join(closed, "a")).st_ino == inode


def test_a_file_that_is_mounted_into_a_closed_folder_is_written_in_its_place(root: str) -> None:
    write_text(root, "closed/a", "a long old text")
    closed = os.path.join(root, "closed")
    mounting = (
        'mount --bind "$0" "$0" && mount --bind "$0/a" "$0/a" && mount -o remount,bind,ro "$0" || exit 77; exec "$@"'
    )
    writing = f"from holdfast.agents.acp.file_access import write_text; write_text({root!r}, 'closed/a', 'new')"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mounting, closed, sys.executable, "-c", writing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"NOT TESTED: a folder that is mounted to be read (no mount here: {done.stderr.strip()})")
    assert done.stderr == ""
    assert read_text(root, "closed/a") == "new"


@pytest.mark.parametrize(("path", "content"), [("a", "half \ud83d"), ("half \ud83d", "text")])
def test_half_a_character_is_denied_in_one_clear_line(root: str, path: str, content: str) -> None:
    write_text(root, "a", "old")
    with pytest.raises(Denied, match=r"\\ud83d") as raised:
        write_text(root, path, content)
    assert str(raised.value).encode().count(b"\n") == 0
    assert read_text(root, "a") == "old"


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
    with pytest.raises(Denied, match="line 2 of a is beyond"):
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
    with pytest.raises(NotADirectoryError), open_parent_folder(root, os.path.join(root, "up", "secret"), make=make):
        pass

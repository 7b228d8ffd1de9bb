"""What is deleted is deleted, also what a build tool made read-only."""

import multiprocessing
import os
import stat
import tempfile

from holdfast.leaf.files.directories import remove_tree

_NOBODY = 65534


def read_only(folder: str) -> str:
    """As a cache of modules is, with a link to somebody else's."""
    top, theirs = os.path.join(folder, "top"), os.path.join(folder, "theirs")
    inner = os.path.join(top, "module", "inner")
    os.makedirs(inner)
    os.mkdir(theirs, 0o500)
    os.symlink(theirs, os.path.join(top, "link"))
    for path in (os.path.join(inner, "a.go"), os.path.join(top, "module", "b.go")):
        with open(path, "wb"):
            pass
    os.chmod(inner, 0o000)
    os.chmod(os.path.dirname(inner), 0o555)
    return top


def removed(folder: str) -> None:
    if os.geteuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    top = read_only(folder)
    remove_tree(top)
    assert not os.path.exists(top)
    assert stat.S_IMODE(os.stat(os.path.join(folder, "theirs")).st_mode) == 0o500


def test_folders_that_nobody_may_write_in_are_deleted_and_no_link_is_followed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        child = multiprocessing.get_context("fork").Process(target=removed, args=(folder,))
        child.start()
        child.join()
        assert child.exitcode == 0


def test_what_is_not_there_is_no_trouble(tmp_path: os.PathLike[str]) -> None:
    remove_tree(os.path.join(tmp_path, "none"))


def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path: os.PathLike[str]) -> None:
    there, link = os.path.join(tmp_path, "there"), os.path.join(tmp_path, "link")
    os.mkdir(there)
    os.symlink(there, link)
    remove_tree(link)
    assert os.listdir(tmp_path) == ["there"]

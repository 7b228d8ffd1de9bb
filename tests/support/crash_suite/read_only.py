"""A home on a file system that is read-only, by the kernel's own word (EROFS): before a resume, and under a run.

    unshare --mount python -m tests.support.crash_suite.read_only FOLDER      needs root

As for ext4 with `errors=remount-ro`, which is how most are mounted: when it meets an error, whoever has a file open
cannot write it any more. Then it is mounted again, and the run goes on. Ends with 77 and says why where the machine
does not allow it.
"""

import asyncio
import os
import subprocess
import sys

from tests.support.crash_suite.power_cut import end
from tests.support.crash_suite.small_disk import must_be_alone, must_be_one_line
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial_place import Place, make_template
from tests.support.crash_suite.warm_programs import KILLED, Ended, Nursery, nursery
from tests.support.real_power_cut import NOT_POSSIBLE, Machine, NotPossible
from tests.support.runs_at_work import at_work, must_be_alike, pages
from tests.support.wait import until

FAILED = 1
_SAYS = "Read-only file system"
_GIVEN_UP = "Input/output error"  # what a sync is told of what ext4 gave up with its journal


class Disk(Machine):
    def __init__(self, folder: str) -> None:
        super().__init__(folder, "-e", "remount-ro")

    def meet_an_error(self) -> None:
        """As the kernel would: at once, whoever is at work there."""
        device = subprocess.run(
            ["findmnt", "--noheadings", "--output=SOURCE", self.mounted], capture_output=True, text=True, check=True
        ).stdout.strip()
        with open(f"/sys/fs/ext4/{os.path.basename(device)}/trigger_fs_error", "w", encoding="utf-8") as file:
            file.write("a test")

    def refuse(self) -> bool:
        """False while somebody has a file open to write, as who was killed has for a moment."""
        return (
            subprocess.run(["mount", "-o", "remount,ro", self.mounted], capture_output=True, check=False).returncode
            == 0
        )

    def allow(self) -> None:
        subprocess.run(["mount", "-o", "remount,rw", self.mounted], check=True)


def placed(folder: str, disk: Disk, warm: Nursery, *, writing: bool = False) -> Place:
    """Its home is on that disk; the repository, and where the test keeps its own, is not."""
    place = Place(folder, pages(writing=writing), warm, home=os.path.join(disk.mounted, os.path.basename(folder)))
    template = f"{folder}.template"
    make_template(template)
    place.make(template)
    return place


def must_be_refused(place: Place, ended: Ended, *says: str) -> None:
    must_be_one_line(ended)
    assert ended.code == FAILED, ended
    assert any(words in ended.err for words in (_SAYS, *says)), ended
    must_be_alone(place)


def content(folder: str) -> dict[str, bytes]:
    found = {}
    for top, _, names in os.walk(folder):
        for path in (os.path.join(top, name) for name in names):
            with open(path, "rb") as file:
                found[path] = file.read()
    return found


async def before_a_resume(suite: FailpointSuite, disk: Disk, place: Place) -> None:
    assert place.begin("prompt.after:1:everyone").code == KILLED
    await until(disk.refuse)
    run_id, before = place.run_id, content(place.home)
    for command in (["resume", run_id, "--quiet"], ["send", run_id, "more"], ["push", run_id]):
        must_be_refused(place, place.call(*command))
    assert place.call("show", run_id).code == 0
    assert content(place.home) == before
    disk.allow()
    assert place.resume().code == 0
    await must_be_alike(suite, place)


async def at_its_work(suite: FailpointSuite, disk: Disk, place: Place) -> None:
    with at_work(place) as let_go:
        disk.meet_an_error()
        must_be_refused(place, let_go(), _GIVEN_UP)
    must_be_refused(place, place.resume())
    await end(disk)
    disk.power_on()
    ended = place.resume()
    must_be_one_line(ended)
    assert ended.code == 0, ended
    await must_be_alike(suite, place)


async def main(folder: str) -> int:
    try:
        disk = Disk(folder)
        disk.power_on()
    except NotPossible as reason:
        sys.stderr.write(str(reason))
        return NOT_POSSIBLE
    with nursery(folder) as warm:
        suite = FailpointSuite(folder, pages(), warm)
        await suite.undisturbed()
        await before_a_resume(suite, disk, placed(os.path.join(folder, "before"), disk, warm))
        await at_its_work(suite, disk, placed(os.path.join(folder, "at-work"), disk, warm, writing=True))
        await end(disk)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))

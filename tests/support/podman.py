"""A container engine for tests: podman with the Docker API, in a folder of its own, and an image made here.

The image is an empty house: what its programs need is this machine's `/usr`, shown to the container.
"""

import io
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

IMAGE = "localhost/holdfast-test:1"

_CONTAINERS = """
[containers]
cgroups = "disabled"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
_STORAGE = """
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""
# Where both kinds of control groups are mounted crun gives up: it gets to see but one of them.
_SERVICE = """
umount /sys/fs/cgroup/unified 2>/dev/null
exec 3<&0 </dev/null
LISTEN_PID=$$ exec podman system service --time=0
"""


def missing() -> str | None:
    """Why there is no engine for tests here; None when there can be one."""
    if shutil.which("podman") is None or shutil.which("crun") is None:
        return "podman and crun are not installed: make test-runtimes does that, as root on Debian"
    return None if os.getuid() == 0 else "podman is started by root only, here"


class Podman(NamedTuple):
    folder: str

    @property
    def socket(self) -> str:
        return os.path.join(self.folder, "engine.sock")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """The service listens before it runs: whoever calls early waits in the queue."""
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.socket)
            listening.listen(16)
            with open(os.path.join(self.folder, "log"), "ab") as log:
                service = subprocess.Popen(
                    ["unshare", "-m", "sh", "-c", _SERVICE],
                    env={**self.environment, "LISTEN_FDS": "1"},
                    stdin=listening.fileno(),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        try:
            yield
        finally:
            service.kill()
            service.wait()
            os.unlink(self.socket)

    @property
    def environment(self) -> dict[str, str]:
        files = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf"}
        return {**os.environ, **{name: os.path.join(self.folder, file) for name, file in files.items()}}

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            ["podman", *arguments], env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def containers(self) -> list[str]:
        """All that there are, dead or alive."""
        return self.call("ps", "--all", "--quiet").split()


@contextmanager
def engine(folder: str) -> Iterator[Podman]:
    os.makedirs(folder)
    for name, text in (("containers.conf", _CONTAINERS), ("storage.conf", _STORAGE.format(folder=folder))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    podman = Podman(folder)
    image = os.path.join(folder, "image.tar")
    _make_image(image)
    podman.call("import", "--quiet", image, IMAGE)
    try:
        yield podman
    finally:
        podman.call("rm", "--all", "--force", "--time", "0")


def _make_image(path: str) -> None:
    with tarfile.open(path, "w") as tar:
        for folder in ("usr", "etc", "proc", "dev", "sys", "tmp", "root"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for link in ("bin", "lib", "lib64"):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
            tar.addfile(entry)
        users = b"root:x:0:0::/root:/bin/sh\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(users)
        tar.addfile(entry, io.BytesIO(users))

"""Nothing to be reached but this machine itself: what a network namespace with only its loopback up gives.

python -m tests.real_agents.alone ARGUMENTS      pytest with these, after that is made so
"""

import fcntl
import shutil
import socket
import struct
import subprocess
import sys

import pytest

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1


def lonely_prefix() -> list[str]:
    """What to put before a command so that it runs in a network of its own; nothing where that is not allowed."""
    if shutil.which("unshare") is not None:
        for flags in (["--net"], ["--net", "--map-root-user"]):
            if subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode == 0:
                return ["unshare", *flags]
    return []


def is_alone() -> bool:
    """True when there is no interface but loopback."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        (flags,) = struct.unpack("16xh", fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh", b"lo", flags | _UP))


if __name__ == "__main__":
    if is_alone():
        raise_loopback()
    sys.exit(pytest.main(sys.argv[1:]))

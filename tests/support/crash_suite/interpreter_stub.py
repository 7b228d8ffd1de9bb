"""In the place of the interpreter: `-P -m holdfast …` is started by the zygote, and this waits until it is dead.

A script that loads next to nothing (`-I -S SCRIPT …`) is run by the interpreter itself. Run without the standard
library's own start-up, so that it costs a few milliseconds.
"""

import _socket
import marshal
import posix
import signal
import sys


def main() -> None:
    if sys.argv[1:3] == ["-I", "-S"]:
        posix.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    held = [number for number in map(int, posix.listdir("/proc/self/fd")) if number > 2 and _is_open(number)]
    here, there = posix.pipe()
    environment = {_text(name): _text(value) for name, value in posix.environ.items()}
    asked = {
        "module": "tests.support.crash_suite.program",
        "arguments": sys.argv[sys.argv.index("holdfast") + 1 :],
        "folder": posix.getcwd(),
        "environment": environment,
        "held": held,
    }
    descriptors = [0, 1, 2, there, *held]
    zygote = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    zygote.connect(environment["HOLDFAST_TEST_ZYGOTE"])
    raw = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    zygote.sendmsg([marshal.dumps(asked)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, raw)])
    zygote.recv(100)
    zygote.close()
    for descriptor in descriptors:
        posix.close(descriptor)
    code = posix.read(here, 100)
    if not code:
        posix.kill(posix.getpid(), signal.SIGKILL)
    posix._exit(int(code))


def _is_open(number: int) -> bool:
    try:
        posix.fstat(number)
    except OSError:
        return False
    return True


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


main()

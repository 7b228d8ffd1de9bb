"""Keys that are pressed while the chat prints."""

import os
import pty
import termios

from holdfast.app.cli.chat.editor import Keyboard

CTRL_D = b"\x04"


def is_the_kernels(fd: int) -> bool:
    """Whether the kernel collects lines and shows what is typed."""
    return bool(termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO))


def test_terminal_stays_raw_while_the_chat_prints() -> None:
    ours, theirs = pty.openpty()
    with open(ours, "wb", buffering=0) as typed, open(theirs, encoding="utf-8") as stdin:
        keyboard = Keyboard(stdin)
        with keyboard.raw_mode():
            with keyboard.stay_raw(), keyboard.cooked_mode():
                assert not is_the_kernels(theirs)
                typed.write(CTRL_D)
            assert os.read(theirs, 1) == CTRL_D, "the kernel has not taken it for the end of the input"
            with keyboard.cooked_mode():
                assert is_the_kernels(theirs)

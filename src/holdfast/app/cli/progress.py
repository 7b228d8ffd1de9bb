"""The progress of a command that takes long: one line of the terminal, which is cleared afterwards."""

import sys

_STEP = 100  # runs between two updates of a count


class ProgressLine:
    """Shows nothing when stderr is no terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_shown = False

    def show(self, step: str) -> None:
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K… {step}")
            sys.stderr.flush()
            self._is_shown = True

    def count_runs(self, verb: str, done: int, total: int) -> None:
        if done % _STEP == 0 and done > 0:
            self.show(f"{verb} runs: {done:,} of {total:,}")

    def clear(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_shown = False

"""A server resumes unattended runs, as `holdfast watch` does, unless another process of this home does."""

import asyncio
import sys

from holdfast.app.text.screen import printable
from holdfast.app.web.site import Site
from holdfast.engine.commands.supervise import supervise_home
from holdfast.leaf.errors import HoldfastError

_RETRY_S = 10.0


class Supervision:
    """Resumes runs for as long as the server lives. It tells on stderr what it does."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._told = ""

    async def run(self) -> None:
        while True:
            try:
                await supervise_home(self._site.home, self._tell_run, self._wait, self._begin)
            except* Exception as errors:  # noqa: BLE001 - without it, nobody would hear that no run is resumed
                self._tell(f"runs are not resumed now: {_first_cause(errors)}")
            finally:
                self._site.is_supervising = False
            await asyncio.sleep(_RETRY_S)

    def _wait(self, pid: int | None) -> None:
        self._tell(f"pid {pid or 'unknown'} resumes runs already; this server takes over when that ends")

    def _begin(self) -> None:
        self._site.is_supervising = True

    def _tell_run(self, run_id: str, text: str) -> None:
        self._tell(f"{run_id}: {text}")

    def _tell(self, text: str) -> None:
        """The same again, at each attempt, says nothing new."""
        if text != self._told:
            self._told = text
            sys.stderr.write(f"{printable(text)}\n")
            sys.stderr.flush()


def _first_cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    is_known = isinstance(error, HoldfastError | OSError)  # such as a full disk
    return str(error) if is_known else f"a bug in Holdfast: {error!r}"

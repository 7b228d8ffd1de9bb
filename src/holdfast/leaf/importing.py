"""Quicker imports."""

import gc
import sys


class NoCollection:
    """A context for imports. They create many objects and free few, so looking for garbage is wasted time.

    What exists at its end is never looked at again: modules live as long as the process.
    """

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.freeze()
        gc.enable()


def import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which loads slowly: it takes the same from `typing` then."""
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # this is how an import is made to fail
    try:
        import msgspec  # noqa: F401, PLC0415 - `ls` does without
    finally:
        del sys.modules["typing_extensions"]

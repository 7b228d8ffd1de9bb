"""Imports without garbage collection: they create many objects and free few, so looking for garbage is wasted time."""

import gc


class NoCollection:
    """A context for imports. What exists at its end is never looked at again: modules live as long as the process."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.freeze()
        gc.enable()

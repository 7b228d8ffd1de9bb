import gc
from collections.abc import Iterator

import pytest

from tests.cli.conftest import holdfast, project, stage

__all__ = ["holdfast", "project", "stage"]


@pytest.fixture(autouse=True)
def quick_to_collect() -> Iterator[None]:
    """Whoever collects what a test left behind need not go through all that was there before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()

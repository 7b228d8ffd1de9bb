import gc

import pytest

from tests.cli.conftest import holdfast, project, stage

__all__ = ["holdfast", "project", "stage"]


@pytest.fixture(autouse=True)
def quick_to_collect() -> None:
    """Whoever collects what a test left behind need not go through all that was there before."""
    gc.collect()
    gc.freeze()

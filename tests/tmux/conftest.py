import os
from typing import Any

import pytest

from holdfast.agents.runtimes.tmux import missing_requirement
from tests.tmux.rooms import Room


def _writes(word: str) -> dict[str, Any]:
    return {"when": f"^{word}", "steps": [{"write": {"path": word, "text": "{{pid}}"}}, {"hang": {"how": "turn"}}]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = missing_requirement()
    for item in items:
        if why is not None and "tests/tmux/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
async def room(tmp_path: os.PathLike[str]) -> Room:
    """Its agent writes a file by the name of the first word, if it is one of these, and works on until it is killed."""
    recall = {"when": "What do you know", "steps": [{"echo_memory": True}, {"write": {"path": "told", "text": "x"}}]}
    turns = [recall, *map(_writes, ("one", "two", "three", "four"))]
    book = {"turns": turns, "otherwise": [{"write": {"path": "other", "text": "{{prompt}}"}}]}
    return await Room.make(os.fspath(tmp_path), book)

import os

import pytest

from tests.support.sessions import WRITE_HELLO, RunHome


@pytest.fixture
def runs(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> RunHome:
    """Agents write hello.txt in every turn."""
    monkeypatch.setenv("HOLDFAST_PLAYBOOK_STATE", os.path.join(tmp_path, "playbook-state"))
    return RunHome.make(os.fspath(tmp_path), WRITE_HELLO)

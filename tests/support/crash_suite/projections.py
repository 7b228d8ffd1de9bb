"""What is to be read beside a log: held against what the log says."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.core.state import RunState
from holdfast.engine.session.artifacts import find_differences
from holdfast.engine.session.projections import write_projections
from holdfast.store.files.layout import run_folder


def must_have_projections_as_rendered(home: str, run_id: str, state: RunState) -> None:
    """Of a run whose last session ended by itself, on a disk that took what it wrote; or that was opened since."""
    folder = run_folder(home, run_id)
    with TemporaryDirectory() as anew:
        write_projections(anew, state)
        expected = {name: content(anew, name) for name in files(anew)}
    different = {
        name: (content(folder, name), text) for name, text in expected.items() if content(folder, name) != text
    }
    assert not different, f"not as the log has it: {different}"
    ledgers = {name for name in files(folder, "ledger") if not name.endswith(".tmp")}  # of who died while it wrote
    assert ledgers == {name for name in expected if name.startswith("ledger/")}, "a ledger of no task"
    assert find_differences(folder, state) == [], "documents of phases that are not as the log has them"


def files(folder: str, below: str = "") -> set[str]:
    found = Path(folder, below).rglob("*")
    return {path.relative_to(folder).as_posix() for path in found if path.is_file()}


def content(folder: str, name: str) -> str | None:
    path = os.path.join(folder, name)
    return Path(path).read_text(encoding="utf-8") if os.path.exists(path) else None

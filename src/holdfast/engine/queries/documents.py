"""The documents of phases for readers. Another machine may have written them: then the log has what is missing here."""

import os

from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.session.artifacts import ArtifactStatus, find_differences

_FOLDER = "artifacts"


async def read_document(home: Home, run_id: str, path: str, limit: int) -> bytes | None:
    """Return the start of a document, `path` below the run's folder; None when there is none."""
    if home.store_url is not None:
        state = (await view_run(home, run_id)).state
        for difference in find_differences(home.folder(run_id), state):
            if difference.file == path and difference.status is not ArtifactStatus.EDITED:
                return difference.expected[:limit]
    top = os.path.join(os.path.realpath(home.folder(run_id)), _FOLDER)
    real = os.path.realpath(os.path.join(os.path.dirname(top), path)) if "\0" not in path else ""
    if not real.startswith(top + os.sep) or not os.path.isfile(real):
        return None
    with open(real, "rb") as file:
        return file.read(limit)

from collections.abc import AsyncIterator

import pytest

from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from tests.support.projects import Project


@pytest.fixture
async def workspace(home: str, project: Project) -> AsyncIterator[Workspace]:
    """The workspace of a new run, owned for the length of the test."""
    run_id = await create_run(Home(home), NewRun("Test the workspace", project.path, slug="test"))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        yield workspace

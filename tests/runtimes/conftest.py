"""The runtimes that confine, where they are: the same facts are asked of both."""

import os
import sys
from collections.abc import Iterator

import pytest

from holdfast.agents.acp.driver import Deadlines
from holdfast.agents.launch import LOCAL, Launch, Runtime
from holdfast.agents.runtimes import sandbox
from holdfast.leaf.errors import BadInput
from tests.agents.company import Company
from tests.runtimes.hostile import Attack
from tests.support.conversations import Place
from tests.support.podman import IMAGE, Podman, engine, missing

_REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OURS = (_REPOSITORY, sys.prefix, sys.base_prefix)  # wherever they are: in /tmp they would be hidden

PATIENT = Deadlines(start=90, session=90, silence=90)  # an engine takes its time on a busy machine


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    with engine(os.path.join(tmp_path_factory.mktemp("podman"), "engine")) as found, found.serving():
        yield found


@pytest.fixture(scope="session")
def boxed() -> Runtime:
    """A sandbox."""
    try:
        os.close(sandbox.spawn_command(Launch(("true",), "/", {}, "test", runtime=LOCAL)).inherited_fds[0])
    except BadInput as error:
        pytest.skip(str(error))
    return Runtime(kind="sandbox", readable=_OURS)


@pytest.fixture(scope="session")
def contained(podman: Podman) -> Runtime:
    """A container."""
    return Runtime(kind="container", image=IMAGE, socket=podman.socket, readable=(*_OURS, "/usr"))


@pytest.fixture(params=["boxed", pytest.param("contained", marks=[pytest.mark.containers, pytest.mark.timeout(400)])])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def company(tmp_path: os.PathLike[str], runtime: Runtime) -> Company:
    found = Company(os.fspath(tmp_path))
    found.runtime, found.deadlines = runtime, PATIENT
    return found


@pytest.fixture
async def place(tmp_path: os.PathLike[str], runtime: Runtime) -> Place:
    return (await Place.make(os.fspath(tmp_path)))._replace(runtime=runtime)


@pytest.fixture
def attack(tmp_path: os.PathLike[str], runtime: Runtime) -> Attack:
    return Attack.make(os.fspath(tmp_path), runtime)

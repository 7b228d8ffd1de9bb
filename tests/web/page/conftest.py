"""One browser for all tests of the page in this process, and one server that they share.

Playwright's event loop never ends, and other tests need a thread without one: the browser and the tests that use it
run in a thread of their own.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.support.crash_suite.warm_programs import Nursery
from tests.support.memory import in_memory
from tests.support.showcase import Showcase, stop_all
from tests.web.browser import browser_path
from tests.web.server import Server
from web.build import BUNDLE

if TYPE_CHECKING:
    from tests.web.page.tabs import Tabs

if find_spec("playwright") is None:
    warnings.warn("playwright is not installed: the page is NOT TESTED in a browser; run make browser", stacklevel=1)
    collect_ignore_glob = ["test_*.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if "tabs" not in pyfuncitem.fixturenames:
        return None
    thread = cast("ThreadPoolExecutor", pyfuncitem.funcargs["browser_thread"])
    names = inspect.signature(pyfuncitem.obj).parameters
    thread.submit(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}).result()
    return True


@pytest.fixture(scope="session")
def browser_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, "browser") as thread:
        yield thread


@pytest.fixture(scope="session")
def browser(browser_thread: ThreadPoolExecutor) -> Iterator[Any]:
    if browser_path() is None:
        pytest.skip("NO BROWSER: the page is not tested; install one with: make browser")
    if not (BUNDLE / "index.html").exists():
        pytest.skip("NO BUNDLE: the page is not tested; build it with: make web")
    from tests.web.page.tabs import start_browser  # noqa: PLC0415 - playwright may not be there

    started, stop = browser_thread.submit(start_browser).result()
    yield started
    browser_thread.submit(stop).result()


@pytest.fixture
def tabs(browser: Any, browser_thread: ThreadPoolExecutor) -> "Iterator[Tabs]":
    """Opens the page; afterwards nothing may have failed in it, and no request may have left for elsewhere."""
    from tests.web.page.tabs import Tabs  # noqa: PLC0415 - playwright may not be there

    opened = Tabs(browser)
    yield opened
    browser_thread.submit(opened.close).result()


@pytest.fixture(scope="session")
def shared(warm: Nursery) -> Iterator[Showcase]:
    """A repository and a home for the tests that only need runs of their own in it."""
    with in_memory() as folder:
        showcase = Showcase(Path(folder, "place"), warm)
        yield showcase
        stop_all(showcase)


@pytest.fixture(scope="session")
def server(shared: Showcase) -> Iterator[Server]:
    with Server.start(shared.home, "--no-watch", page=True) as started:
        yield started


@pytest.fixture
def place(tmp_path: Path, warm: Nursery) -> Iterator[Showcase]:
    """A home of the test's own."""
    showcase = Showcase(tmp_path / "place", warm)
    yield showcase
    stop_all(showcase)


Start = Callable[..., Server]


@pytest.fixture
def start(place: Showcase) -> Iterator[Start]:
    """Starts servers of that home, which end with the test."""
    servers: list[Server] = []

    def begin(*options: str, **how: Any) -> Server:
        servers.append(Server.start(place.home, *(options or ("--no-watch",)), page=True, **how))
        return servers[-1]

    yield begin
    for started in servers:
        started.end()

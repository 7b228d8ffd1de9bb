"""Runs the server until a signal: the socket, the files that let its user in, and what it watches meanwhile."""

import asyncio
import errno
import html
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import NamedTuple

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from holdfast.app.web.access import FOLDER, Access, load_token
from holdfast.app.web.app import create_app
from holdfast.app.web.site import Options, Site
from holdfast.app.web.supervision import Supervision
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.leaf.files.disk import make_directories, replace

_SHUTDOWN_S = 2
_MAX_MESSAGE_BYTES = 1024 * 1024


class Started(NamedTuple):
    """What a started server tells its user. `open_file` signs a browser in; it works once, and is written anew."""

    url: str
    open_file: str
    token_file: str


class PortTaken(HoldfastError):
    """Another process listens there."""


def listen(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.bind, options.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {options.port} is in use; choose another: holdfast serve --port {options.port + 1}"
            ) from None
        raise HoldfastError(f"cannot listen on {options.bind} port {options.port}: {error.strerror}") from None
    listener.set_inheritable(False)
    return listener


def open_file_of(home: Home, port: int) -> str:
    return home.file(FOLDER, f"open-{port}.html")


def sign_in_file(home: Home, open_file: str, run_id: str | None) -> str:
    """Return a file that opens the page of a run, made from the one that opens the page."""
    if run_id is None:
        return open_file
    with open(open_file, encoding="utf-8") as file:
        page = file.read()
    path = home.file(FOLDER, f"{os.path.basename(open_file).removesuffix('.html')}-run.html")
    replace(path, re.sub(r"(code=[\w-]+)", rf"\1&amp;run={run_id}", page, count=1).encode())
    return path


def run_server(home: Home, options: Options, started: Callable[[Started], None]) -> None:
    """Serve until SIGINT or SIGTERM. Runs and their runners continue."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # terminals would inherit that, and outlive the server
        signal.signal(signal.SIGHUP, lambda *_: None)
    listener = listen(options)
    port = listener.getsockname()[1]
    options = options._replace(port=port)
    try:
        token = load_token(home)
    except OSError as error:
        raise StorageFailed.from_os_error(error) from error
    site = Site(home, Access(token, port, options.names), options)
    if options.supervise:
        site.background.append(Supervision(site).run)
    site.on_code_used(lambda: _write_open_file(home, site))
    shown = Started(_url(options), open_file_of(home, port), home.file(FOLDER, "token"))

    @asynccontextmanager
    async def background() -> AsyncIterator[None]:
        _write_open_file(home, site)
        tasks = [asyncio.create_task(work()) for work in site.background]
        started(shown)
        try:
            yield
        finally:
            site.is_closing.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await site.jobs.close()
            site.terminals.close()
            for file in (shown.open_file, f"{shown.open_file.removesuffix('.html')}-run.html"):
                with suppress(OSError):
                    os.unlink(file)

    config = uvicorn.Config(
        create_app(site, background),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        ws=_WebSocketProtocol,
        ws_max_size=_MAX_MESSAGE_BYTES,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    with listener:
        _SleepingServer(config).run(sockets=[listener])


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    def shutdown(self) -> None:
        try:
            super().shutdown()
        except InvalidState:  # the browser closes the connection at this moment
            self.transport.close()


class _SleepingServer(uvicorn.Server):
    """Wakes for requests and signals only: uvicorn's own looks ten times a second whether it should end."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._loop, self._asked_to_end = asyncio.get_running_loop(), asyncio.Event()
        if not self.should_exit:
            await self._asked_to_end.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        with suppress(AttributeError, RuntimeError):  # before the loop runs, or after it
            self._loop.call_soon_threadsafe(self._asked_to_end.set)


def _url(options: Options) -> str:
    host = f"[{options.bind}]" if ":" in options.bind else options.bind
    return f"http://{host if options.bind not in ('0.0.0.0', '::') else '127.0.0.1'}:{options.port}/"  # noqa: S104 - compared


def _write_open_file(home: Home, site: Site) -> None:
    """Write the file that signs a browser in. The code in it works once; only this user can read the file."""
    url = f"{_url(site.options)}open?code={site.access.new_code()}"
    page = (
        "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>"
        f'<meta http-equiv=refresh content="0;url={html.escape(url)}"><title>holdfast</title>\n'
    )
    path = open_file_of(home, site.options.port)
    make_directories(os.path.dirname(path))
    with suppress(OSError):  # a full disk: the page can be opened once there is space
        replace(path, page.encode())

"""Forwards TCP connections to a server on this host, in a process of its own: a way in for a network namespace."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PROGRAM = """
import asyncio, sys

async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def forward(reader, writer):
    to = sys.argv[2]
    there = asyncio.open_unix_connection(to) if to.startswith("/") else asyncio.open_connection(*to.rsplit(":", 1))
    other_reader, other_writer = await there
    await asyncio.gather(pump(reader, other_writer), pump(other_reader, writer))

async def main():
    host, port = sys.argv[1].rsplit(":", 1)
    server = await asyncio.start_server(forward, host, int(port))
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def forwarded(address: str, to: str) -> Iterator[str]:
    """Forward what comes to `host:port` to another one, or to a unix socket."""
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, address, to], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield address
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

"""Faults that a playbook can script: dying, hanging, and sending invalid messages."""

import asyncio
import os
import resource
import signal
import sys
import time
from typing import NoReturn

from holdfast.agents.jsonrpc.stdio import StdioConnection
from holdfast.agents.playbook.format import Crash, Hang, Junk

GAVE_UP_CODE = 3  # the exit code of an agent that hung until its time limit


def crash(step: Crash) -> NoReturn:
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if step.how == "exit":
        os._exit(step.code)
    number = {"kill": signal.SIGKILL, "abort": signal.SIGABRT, "segfault": signal.SIGSEGV}[step.how]
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    time.sleep(60)  # wait for the signal
    os._exit(GAVE_UP_CODE)


async def hang(step: Hang) -> NoReturn:
    """Ends after a limit, so that a forgotten agent does not stay forever."""
    if step.how in ("turn", "deaf"):
        await asyncio.sleep(step.seconds)
    else:
        if step.how == "stubborn":
            ignore_signals()
        time.sleep(step.seconds)  # noqa: ASYNC251 - blocks the whole agent on purpose
    sys.stderr.write(f"playbook: hung for {step.seconds} s, as the script says; this is the end\n")
    os._exit(GAVE_UP_CODE)


def ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


async def send_junk(connection: StdioConnection, step: Junk, text: str) -> None:
    match step.what:
        case "text":
            await connection.send_bytes(text.encode() + b"\n")
        case "half":
            await connection.send_bytes(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":')
        case "utf8":
            await connection.send_bytes(b'{"jsonrpc":"2.0","method":"\xff\xfe\x80"}\n')
        case "unknown_id":
            await connection.answer(987_654_321, {})
        case "huge":
            await connection.send_bytes(b"x" * step.size + b"\n")

"""Delivers one notification once: to the desktop, a webhook or a command. Says what went wrong, and raises nothing."""

import asyncio
import base64
import hashlib
import hmac
import html
import os
import shutil
import time
from collections.abc import Mapping

import msgspec

from holdfast.core.config.operations import NotifyTarget
from holdfast.core.notify.kinds import NotificationKind
from holdfast.core.notify.notification import Notification
from holdfast.engine.hooks.process import run_hook
from holdfast.engine.http_post import PostFailed, post

POST_TIMEOUT_S = 10.0
_DESKTOP_TIMEOUT_S = 10.0
_URGENT = frozenset({NotificationKind.NEEDS_YOU, NotificationKind.FAILED})


async def deliver(target: NotifyTarget, notification: Notification, home: str) -> str | None:
    """Return what went wrong; None when it was delivered."""
    if target.webhook is not None:
        return await _post(target, target.webhook, notification)
    if target.command is not None:
        return await _run(target.command, notification, home)
    return await _show(notification)


def key_of(target: NotifyTarget, environment: Mapping[str, str]) -> tuple[bytes | None, str | None]:
    """Return the key that signs the requests of a webhook, and what is wrong with it."""
    if target.key_variable is not None:
        value = environment.get(target.key_variable, "").strip()
        return (value.encode(), None) if value else (None, f"the variable {target.key_variable} is not set")
    if target.key_file is None:
        return None, None
    path = os.path.expanduser(target.key_file)
    try:
        with open(path, "rb") as file:
            value_of_file = file.read().strip()
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    return (value_of_file, None) if value_of_file else (None, f"{path} is empty")


def signature(key: bytes, delivery_id: str, timestamp: str, body: bytes) -> str:
    """As Standard Webhooks sign: HMAC-SHA256 of id, time and body. A key may be written `whsec_` and Base64."""
    if key.startswith(b"whsec_"):
        try:
            key = base64.b64decode(key.removeprefix(b"whsec_"), validate=True)
        except ValueError:
            raise ValueError("the key that signs it begins with whsec_ but is not Base64 after that") from None
    signed = hmac.new(key, f"{delivery_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


async def _post(target: NotifyTarget, url: str, notification: Notification) -> str | None:
    key, problem = key_of(target, os.environ)
    if problem is not None:
        return problem
    body, timestamp = msgspec.json.encode(notification), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Webhook-Id": notification.id,
        "Webhook-Timestamp": timestamp,
    }
    try:
        if key is not None:
            headers["Webhook-Signature"] = signature(key, notification.id, timestamp, body)
        status = await post(url, body, headers, POST_TIMEOUT_S)
    except (PostFailed, ValueError) as error:
        return str(error)
    return None if 200 <= status < 300 else f"it answered {status}"  # noqa: PLR2004 - success


async def _run(command: tuple[str, ...], notification: Notification, home: str) -> str | None:
    result = await run_hook(command, home, msgspec.json.encode(notification), run_id=None)
    if result.exit_code == 0:
        return None
    return f"{command[0]} {result.problem}" if result.problem else result.summary


async def _show(notification: Notification) -> str | None:
    """Show it on the desktop. Its text may come from an agent, and the desktop reads markup."""
    program = shutil.which("notify-send")
    if program is None:
        return "notify-send is not installed (Debian: libnotify-bin)"
    urgency = "critical" if notification.kind in _URGENT else "normal"
    text = html.escape(notification.text)
    arguments = ("--app-name=Holdfast", f"--urgency={urgency}", "--", notification.title, text)
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        return error.strerror or str(error)
    try:
        async with asyncio.timeout(_DESKTOP_TIMEOUT_S):
            _, errors = await process.communicate()
    except TimeoutError:
        return "notify-send did not end"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    said = " ".join(errors.decode(errors="replace").split())
    return None if process.returncode == 0 else said or f"notify-send exited with code {process.returncode}"

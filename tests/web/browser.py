"""Which browser the tests of the page drive: Debian's chromium, or what HOLDFAST_CHROMIUM names."""

import os
import shutil
from typing import TYPE_CHECKING, Any

from tests.web.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def browser_path() -> str | None:
    named = os.environ.get("HOLDFAST_CHROMIUM")
    return named or next((path for path in map(shutil.which, _NAMES) if path is not None), None)


def browser_options() -> dict[str, Any]:
    """For Playwright's launch. Its sandbox needs what root and containers do not have."""
    return {
        "executable_path": browser_path(),
        "chromium_sandbox": False,
        "args": ["--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb"],
    }


def sign_in(context: "BrowserContext", server: Server) -> None:
    """Give the browser the cookie that opening the page gives."""
    name, _, value = server.sign_in().partition("=")
    context.add_cookies([{"name": name, "value": value, "url": server.url, "httpOnly": True, "sameSite": "Strict"}])

"""Tabs of the page in a real browser, and what a person can see in them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.support.wait import PATIENCE
from tests.web.browser import browser_options, sign_in
from tests.web.server import Server

PATIENCE_MS = 1000 * PATIENCE
DESK = (1280, 800)
PHONE = (375, 760)


def start_browser() -> tuple[Browser, Callable[[], None]]:
    """Start the browser in the calling thread. Returns what ends it, in the same thread."""
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(**browser_options())
    expect.set_options(timeout=PATIENCE_MS)

    def stop() -> None:
        browser.close()
        playwright.stop()

    return browser, stop


class Tabs:
    """The browser of one test. `complaints`: errors of the page's own code, and requests that left this machine."""

    def __init__(self, browser: Browser) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(
        self, server: Server, path: str = "/", size: tuple[int, int] = DESK, beside: Page | None = None, **how: Any
    ) -> Page:
        """Open a tab, signed in: in a browser of its own, or as another tab `beside` one."""
        context = beside.context if beside is not None else self.browser_of(server, size, **how)
        page = context.new_page()
        page.goto(server.url + path)
        return page

    def browser_of(self, server: Server, size: tuple[int, int] = DESK, **how: Any) -> BrowserContext:
        width, height = size
        context = self._browser.new_context(viewport={"width": width, "height": height}, **how)
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        context.on("weberror", lambda error: self.complaints.append(f"{error.error}"))
        context.on("request", lambda request: self._note(request.url))
        context.on("console", lambda message: self._heard(message.text))
        sign_in(context, server)
        return context

    def _note(self, url: str) -> None:
        self.requests.append(url)
        if urlsplit(url).hostname not in ("127.0.0.1", None):
            self.complaints.append(f"a request left this machine: {url}")

    def _heard(self, text: str) -> None:
        if "Content Security Policy" in text:
            self.complaints.append(text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        assert self.complaints == []


def is_on_top(locator: Locator) -> bool:
    """Whether a person sees it: its centre is in the window, and nothing lies over it."""
    return bool(
        locator.evaluate(
            """element => {
              const box = element.getBoundingClientRect();
              const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
              return top !== null && (element.contains(top) || top.contains(element));
            }"""
        )
    )


def seen(page: Page, text: str) -> bool:
    """Whether this text is on the screen now."""
    found = page.get_by_text(text).filter(visible=True)
    return any(is_on_top(each) for each in found.all())

"""Every page: nothing serious for axe, nothing wider than a phone, in both themes."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.cli_stage import BLOCKED
from tests.support.showcase import HANG, HELLO, WORKER, Showcase, wait_until
from tests.web.page.tabs import PHONE, Tabs, is_on_top
from tests.web.server import Server

SITE = ("/", "/new", "/agents", "/settings", "/search?q=hello", "/digest?since=24")
TABS = ("conversation", "plan", "changes", "terminal", "log")


@pytest.fixture(scope="module")
def runs(shared: Showcase) -> dict[str, str]:
    """One run of each kind that looks different."""
    return {
        "asking": shared.asking("Look at me while I ask", name="looks-asking"),
        "working": shared.detach("Look at me at work", shared.book("looks-work", {"when": WORKER, "steps": HANG})),
        "failed": shared.run(
            "Look at me after a failure", shared.book("looks-failed", {"when": WORKER, "steps": [BLOCKED]})
        ),
        "done": shared.run("Look at me when I am done", shared.book("looks-done", {"when": WORKER, "steps": HELLO})),
    }


def visit(page: Page, server: Server, path: str) -> None:
    page.goto(server.url + path)
    expect(page.locator("h1").first).to_be_visible()
    page.wait_for_load_state("networkidle")


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{page.url}: {each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.torture)])
def test_axe_finds_nothing_serious(theme: str, runs: dict[str, str], server: Server, tabs: Tabs) -> None:
    page = tabs.open(server, "/", color_scheme=theme)
    found: list[str] = []
    for path in [*SITE, *(f"/runs/{runs['asking']}/{tab}" for tab in TABS), f"/runs/{runs['failed']}/conversation"]:
        visit(page, server, path)
        found += serious(page)
    page.get_by_role("button", name="Decide how to resume").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += serious(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Go to a run")).to_be_focused()
    found += serious(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    found += serious(page)
    assert found == []


def test_phone_shows_one_column_without_sideways_scrolling(runs: dict[str, str], server: Server, tabs: Tabs) -> None:
    """The tabs of a run are at the bottom, and what it asks can be answered without scrolling."""
    page = tabs.open(server, "/", PHONE, has_touch=True)
    wide: list[str] = []
    for path in [*SITE, *(f"/runs/{run}/{tab}" for run in (runs["asking"], runs["done"]) for tab in TABS)]:
        visit(page, server, path)
        if page.evaluate("document.scrollingElement.scrollWidth") > PHONE[0]:
            wide.append(path)
    assert wide == []
    visit(page, server, f"/runs/{runs['asking']}")
    views = page.get_by_role("navigation", name="Views of this run")
    box = views.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] > PHONE[1] - 2
    allow = page.locator("[data-answer=allow]")
    assert is_on_top(allow)
    height = allow.bounding_box()
    assert height is not None
    assert height["height"] >= 36
    views.get_by_role("link", name="Log").tap()
    expect(page.get_by_role("region", name="Events")).to_be_visible()


def test_title_counts_what_needs_the_person(runs: dict[str, str], server: Server, tabs: Tabs) -> None:
    page = tabs.open(server, f"/runs/{runs['asking']}")

    def needing() -> int:
        return len([row for row in server.get("/runs").json["runs"] if row["needs_you"]])

    assert needing() >= 2
    wait_until(lambda: page.title().startswith(f"({needing()}) "))  # the runs of other tests may still be ending


def test_signed_out_browser_is_told_how_to_come_back(runs: dict[str, str], server: Server, tabs: Tabs) -> None:
    page = tabs.open(server, f"/runs/{runs['done']}")
    expect(page.locator("[data-status=done]")).to_be_visible()
    page.context.clear_cookies()
    page.reload()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    assert is_on_top(page.get_by_text("holdfast serve --open", exact=True))

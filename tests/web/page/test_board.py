"""The board: what needs a person can be done from its card."""

import re

from playwright.sync_api import expect

from tests.support.cli_stage import BLOCKED
from tests.support.showcase import HELLO, WORKER, Showcase, wait_until
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs
from tests.web.server import Server


def test_killed_run_is_resumed_from_its_card(shared: Showcase, server: Server, tabs: Tabs) -> None:
    again = {"when": "Your last turn was interrupted", "steps": HELLO}
    steps = [{"tool": "a step"}, {"hang": {"how": "turn", "seconds": 3600}}]
    run = shared.detach("Die on the board", shared.book("card", again, {"when": WORKER, "steps": steps}))
    wait_until(lambda: bool(events(shared, run, "tool.called")))
    page = tabs.open(server, f"/?q={run}")  # of many, only the first cards of a column have buttons
    card = page.locator(f'[data-run="{run}"]')
    expect(card).to_contain_text("running")
    shared.kill_runner(run)
    expect(page.locator(f'[data-column=needs] [data-run="{run}"]')).to_contain_text("interrupted")
    card.get_by_role("button", name="Resume").click()
    expect(page.locator(f'[data-column=done] [data-run="{run}"]')).to_be_visible()
    assert len(events(shared, run, "session.start")) >= 2


def test_card_of_a_failed_run_says_why_and_leads_to_the_decision(shared: Showcase, server: Server, tabs: Tabs) -> None:
    run = shared.run("Fail on the board", shared.book("board-fails", {"when": WORKER, "steps": [BLOCKED]}))
    page = tabs.open(server, f"/?q={run}")
    card = page.locator(f'[data-run="{run}"]')
    expect(card).to_contain_text("needed: a key")
    card.get_by_role("link", name="Decide how to continue").click()
    expect(page.get_by_role("dialog", name="How should this run continue?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(rf"/runs/{run}$"))
    page.keyboard.press("b")
    card.locator("[data-card]").focus()
    page.keyboard.press("r")
    expect(page.get_by_role("dialog", name="How should this run continue?")).to_be_visible()


def test_card_of_a_parked_run_says_why(shared: Showcase, server: Server, tabs: Tabs) -> None:
    start = [{"stderr": "no licence: set LICENCE_KEY\n"}, {"crash": {"how": "exit", "code": 2}}]
    run = shared.run("Park on the board", shared.book("board-parks", {"when": WORKER, "steps": HELLO}, start=start))
    card = tabs.open(server, f"/?q={run}").locator(f'[data-run="{run}"]')
    expect(card).to_contain_text("parked")
    expect(card).to_contain_text(re.compile(r"failed to start \(.+\): no licence: set LICENCE_KEY"))

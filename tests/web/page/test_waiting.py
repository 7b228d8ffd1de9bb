"""A run that waits for its provider: it counts down without asking the server, and can be told not to wait."""

import datetime as dt
import re

from playwright.sync_api import expect

from tests.support.showcase import HELLO, WORKER, Showcase
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs
from tests.web.server import Server

# A live connection that was silent for an hour is made again, and then the run is fetched.
_NO_LIVE = """() => {
  window.WebSocket = class { static OPEN = 1; static CONNECTING = 0; readyState = 0; send() {} close() {} };
}"""


def test_parked_run_counts_down_and_is_resumed_at_once(shared: Showcase, server: Server, tabs: Tabs) -> None:
    at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=7500)
    data = {"kind": "rate_limit", "resetsAt": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    refused = {"error": {"code": -32000, "message": "no more requests for now", "data": data}}
    again = {"when": "Your last turn was interrupted", "steps": HELLO}
    run = shared.run("Wait for the reset", shared.book("limited", again, {"when": WORKER, "steps": [refused]}))
    page = tabs.open(server)
    card = page.locator(f"[data-column=rest] [data-run='{run}']")
    expect(card.get_by_role("group", name="Waits for time")).to_contain_text("Usage limit reached")
    expect(card.get_by_role("button", name="Resume now")).to_be_visible()

    page.clock.install()
    with page.expect_response("**/queued"):  # the last that the page fetches as it opens
        page.goto(f"{server.url}/runs/{run}")
    waits = page.get_by_role("group", name="Waits for time")
    expect(waits).to_contain_text("by itself under watch or serve")
    expect(waits.locator("[data-countdown]")).to_have_text(re.compile("^in 2 h [1-6] m$"))
    page.evaluate(_NO_LIVE)
    page.clock.fast_forward("30:00")
    expect(waits.locator("[data-countdown]")).to_have_text(re.compile("^in 1 h 3[1-6] m$"))
    page.wait_for_load_state("networkidle")
    asked = len(tabs.requests)
    page.clock.fast_forward("01:00:00")
    expect(waits.locator("[data-countdown]")).to_have_text(re.compile(r"^in 3\d m( \d+ s)?$"))
    assert [url for url in tabs.requests[asked:] if run in url] == []

    page.reload()
    page.get_by_role("button", name="Resume now").click()
    expect(page.locator("[data-status=done]")).to_be_visible()
    expect(waits).to_have_count(0)
    assert len(events(shared, run, "limit.lifted")) == 1

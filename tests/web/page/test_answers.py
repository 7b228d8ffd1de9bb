"""What a person sends happens once: two tabs, a lost answer of the server, eight tabs."""

import re
from typing import Any

from playwright.sync_api import Page, Response, Route, expect

from tests.support.showcase import WORKER, Showcase, wait_until
from tests.web.page.rows import events
from tests.web.page.tabs import PATIENCE_MS, Tabs
from tests.web.server import Server


def test_second_answer_is_refused_and_says_so(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """Both tabs show the request when they answer; the first answer counts, the other tab is told."""
    run = shared.asking("Ask two tabs", name="two")
    first = tabs.open(server, f"/runs/{run}")
    second = tabs.open(server, f"/runs/{run}", beside=first)
    statuses: list[int] = []

    def note(response: Response) -> None:
        if response.url.endswith("/answers"):
            statuses.append(response.status)

    first.on("response", note)
    second.on("response", note)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    second.route("**/answers", hold)
    second.get_by_role("button", name="Deny").click()
    second.get_by_role("textbox", name="Why").fill("too early")
    with second.expect_request("**/answers"):
        second.get_by_role("textbox", name="Why").press("Enter")
    first.get_by_role("button", name=re.compile("^Allow")).click()
    expect(first.locator("[data-status=done]")).to_be_visible()
    held[0].continue_()
    expect(second.get_by_text("Not recorded")).to_be_visible()
    assert sorted(statuses) == [202, 409]
    assert [data["option"] for data in events(shared, run, "permission.answered")] == ["allow_once"]


def lose_the_first_answer(page: Page, url: str) -> list[int]:
    """The server gets the request and acts; the page never hears of it. Returns the statuses that the server gave."""
    statuses: list[int] = []

    def handle(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        answer = route.fetch(timeout=PATIENCE_MS)
        statuses.append(answer.status)
        if len(statuses) == 1:
            route.abort()
        else:
            route.fulfill(response=answer)

    page.route(url, handle)
    return statuses


def test_retried_start_is_one_run_and_retried_message_one_message(shared: Showcase, server: Server, tabs: Tabs) -> None:
    hanging = shared.named("retried", {"when": WORKER, "steps": [{"hang": {"how": "turn", "seconds": 3600}}]})
    page = tabs.open(server, "/new")
    statuses = lose_the_first_answer(page, "**/api/v1/runs")
    page.get_by_label("Repository", exact=True).fill(shared.repository)
    page.get_by_role("textbox", name="Goal").fill("Start me once")
    page.get_by_label("Agent", exact=True).select_option(hanging)
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("heading", name="Start me once")).to_be_visible()
    assert statuses == [202, 202]
    runs = [row["id"] for row in server.get("/runs").json["runs"] if row["goal"] == "Start me once"]
    assert len(runs) == 1

    expect(page.get_by_text("is at work")).to_be_visible()
    statuses = lose_the_first_answer(page, "**/messages")
    composer = page.get_by_role("textbox", name="Message to")
    composer.fill("Say it once")
    composer.press("Enter")
    expect(page.get_by_label("Messages that no prompt").get_by_text("Say it once")).to_have_count(1)
    expect(composer).to_have_value("")
    assert statuses == [202, 202]
    queued: list[dict[str, Any]] = server.get(f"/runs/{runs[0]}/queued").json["messages"]
    assert [message["text"] for message in queued] == ["Say it once"]


def test_eight_tabs_of_one_browser_are_all_live(shared: Showcase, server: Server, tabs: Tabs) -> None:
    gate = shared.folder / "eight"
    steps = [{"say": "one"}, {"tool": "a look"}, {"wait_for": str(gate)}, {"say": "two"}]
    run = shared.detach("Show it to eight", shared.book("eight-book", {"when": WORKER, "steps": steps}))
    pages = [tabs.open(server, f"/runs/{run}")]
    pages += [tabs.open(server, f"/runs/{run}", beside=pages[0]) for _ in range(7)]
    for page in pages:
        expect(page.get_by_text("a look")).to_be_visible()
    gate.touch()
    for page in pages:
        expect(page.get_by_text("two", exact=True)).to_be_visible()
        expect(page.locator("[data-status=done]")).to_be_visible()
    wait_until(lambda: bool(events(shared, run, "task.completed")))

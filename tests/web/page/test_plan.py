"""The picture of a run over time, its replay, and the proof of its log."""

import re
import secrets

import pytest
from playwright.sync_api import expect

from tests.support.cli_stage import ACCEPT, SUBMIT
from tests.support.showcase import HELLO, WORKER, Showcase, hang_once
from tests.web.page.tabs import Tabs
from tests.web.server import Server


@pytest.fixture(scope="module")
def run(shared: Showcase) -> str:
    """A finished run of three tasks, whose runner was killed while it worked on the second."""
    hang = f"planned-{secrets.token_hex(4)}"  # the fixture may be set up again, in the same home
    second = {"when": "task `?T-2", "steps": [hang_once(hang), *HELLO, SUBMIT]}
    judge = {"when": "You are the evaluator", "steps": [ACCEPT]}
    book = shared.book("planned", judge, second, {"when": WORKER, "steps": [*HELLO, SUBMIT]})
    plan = shared.tasks("planned-tasks.json", "Write it", "Test it", "Tell it")
    begun = shared.detach(plan, book, "--workflow", "loop")
    shared.wait_for_hang(hang)
    shared.kill_runner(begun)
    shared.holdfast("resume", begun)
    return begun


def test_picture_shows_deaths_and_opens_the_event(run: str, server: Server, tabs: Tabs) -> None:
    """A lane for each task; the death is on it, and a click goes to that event in the log."""
    page = tabs.open(server, f"/runs/{run}/plan")
    picture = page.get_by_role("img", name=re.compile("What ran when: 3 lanes, .* 1 deaths"))
    expect(picture).to_be_visible()
    for task in ("T-1", "T-2", "T-3"):
        expect(picture.get_by_text(task, exact=True)).to_be_visible()
    death = picture.locator("path.death")
    expect(death).to_have_count(1)
    death.hover()
    expect(page.locator(".tip")).to_contain_text("runner died")
    box = death.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile(r"/log\?at=\d+"))
    expect(page.locator(".marked")).to_be_visible()


def test_replay_shows_the_run_as_it_was(run: str, server: Server, tabs: Tabs) -> None:
    """At the beginning of time nothing is done; at the end all is. The conversation of then is one press away."""
    page = tabs.open(server)
    page.clock.install()
    page.goto(f"{server.url}/runs/{run}/plan")
    slider = page.get_by_role("slider", name="Time")
    tasks = page.get_by_role("region", name="Tasks").get_by_role("article")
    expect(tasks).to_have_count(3)
    assert [task.get_attribute("data-status") for task in tasks.all()] == ["COMPLETE"] * 3
    slider.focus()
    page.keyboard.press("Home")
    for task in tasks.all():
        expect(task).to_have_attribute("data-status", "PENDING")
    page.get_by_role("button", name="Replay the run").click()
    page.clock.run_for(20_000)  # longer than a replay takes
    expect(tasks.first).to_have_attribute("data-status", "COMPLETE")
    expect(tasks.last).to_have_attribute("data-status", "COMPLETE")
    slider.fill("600")
    page.get_by_role("link", name="The conversation then").click()
    expect(page).to_have_url(re.compile(r"/conversation\?at=\d+"))
    expect(page.locator(".marked")).to_be_visible()


def test_log_is_filtered_and_proved(run: str, server: Server, tabs: Tabs) -> None:
    page = tabs.open(server, f"/runs/{run}/log")
    page.get_by_role("combobox", name="Types of events").fill("task.completed")
    page.get_by_role("combobox", name="Types of events").press("Enter")
    rows = page.get_by_role("region", name="Events").locator("[data-row]")
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("button", name="intact")).to_be_visible()

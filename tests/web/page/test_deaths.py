"""The server, the runner and the agent die under the eyes of somebody who looks at the page."""

import getpass
import re

from playwright.sync_api import expect

from tests.support.cli_stage import BLOCKED
from tests.support.showcase import WORKER, Showcase, wait_until
from tests.web.page.conftest import Start
from tests.web.page.rows import events, numbers, read_all
from tests.web.page.tabs import Tabs, is_on_top


def counting(first: int, last: int) -> dict[str, object]:
    """Says the numbers one by one, with a tool call after each tenth."""
    tens = [
        step
        for ten in range(first, last + 1, 10)
        for step in (
            {"say": {"text": "".join(f"[{number}] " for number in range(ten, ten + 10)), "chunk": 9, "delay": 0.002}},
            {"tool": {"id": f"look-{ten}", "title": f"look at {ten}", "kind": "read"}},
            {"tool_done": {"id": f"look-{ten}"}},
        )
    ]
    return {"repeat": {"times": 1, "steps": tens}}


def test_server_killed_mid_stream_loses_and_repeats_nothing(
    place: Showcase, start: Start, tabs: Tabs, port: int
) -> None:
    """Its successor continues the open page, although the agent went on without a server. The run notices nothing."""
    gates = [place.folder / "first", place.folder / "second"]
    steps = [counting(1, 200), {"wait_for": str(gates[0])}, counting(201, 400), {"wait_for": str(gates[1])}]
    server = start("--no-watch", port=port)
    run = place.detach("Count", place.book("count", {"when": WORKER, "steps": [*steps, counting(401, 410)]}))
    pid = place.runner_pid(run)
    page = tabs.open(server, f"/runs/{run}")
    expect(page.get_by_text("look at 191")).to_be_visible()
    gates[0].touch()
    server.kill()
    expect(page.get_by_text("No connection to the server")).to_be_visible()
    wait_until(lambda: "look-391" in [data["call"] for data in events(place, run, "tool.returned")])
    start("--no-watch", port=port)
    expect(page.get_by_text("look at 391")).to_be_visible()
    expect(page.get_by_text("No connection to the server")).to_be_hidden()
    assert place.runner_pid(run) == pid
    gates[1].touch()
    expect(page.locator("[data-status=done]")).to_be_visible()
    assert numbers(read_all(page)) == list(range(1, 411))
    assert len(events(place, run, "turn.started")) == 1


def test_page_follows_the_death_of_the_runner_to_the_choice_in_the_log(
    place: Showcase, start: Start, tabs: Tabs
) -> None:
    """The page changes by itself; the dialog shows what each choice means; the choice is in the log."""
    blocked = {"when": "task `?T-1", "steps": [{"say": "There is no key."}, BLOCKED]}
    hanging = {"when": WORKER, "steps": [{"say": "I begin."}, {"hang": {"how": "turn", "seconds": 3600}}]}
    page = tabs.open(start())
    run = place.detach(
        place.tasks("plan.json", "Publish it", "Describe it"),
        place.book("two", blocked, hanging),
        "--workflow",
        "waves",
    )
    page.get_by_role("link", name="plan.json").click()
    expect(page.get_by_text("I begin.")).to_be_visible()
    wait_until(lambda: bool(events(place, run, "task.failed")))
    place.kill_runner(run)
    expect(page.locator("[data-status=interrupted]")).to_be_visible()
    expect(page.get_by_text("The runner died.")).to_be_visible()
    page.get_by_role("button", name="Decide how to resume").click()
    dialog = page.get_by_role("dialog", name="How should this run continue?")
    expect(dialog).to_contain_text("a key")
    choice = dialog.get_by_role("radio", name=re.compile("^B "))
    choice.check()
    expect(dialog).to_contain_text(f"holdfast resume {run} --on-issue")
    assert is_on_top(dialog.get_by_role("button", name="Resume", exact=True))
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(dialog).to_be_hidden()
    expect(page.locator("[data-status=interrupted]")).to_be_hidden()
    wait_until(lambda: bool(events(place, run, "resume.chosen")))
    assert len(events(place, run, "resume.chosen")) == 1
    expect(page.get_by_text("chosen how to resume")).to_be_visible()


def test_answer_for_a_dead_agent_is_applied_once_by_the_resume(place: Showcase, start: Start, tabs: Tabs) -> None:
    server = start()
    run = place.asking()
    page = tabs.open(server, f"/runs/{run}")
    allow = page.get_by_role("button", name="Allow", exact=False).first
    expect(allow).to_be_visible()
    place.kill_runner(run)
    expect(page.locator("[data-status=interrupted]")).to_be_visible()
    allow.click()
    expect(page.get_by_text("applied")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("[data-status=done]")).to_be_visible()
    assert [data["by"] for data in events(place, run, "permission.answered")] == [
        getpass.getuser(),
        "the earlier answer",
    ]
    assert [data["text"] for data in events(place, run, "message.recorded")].count("It is up.") == 1

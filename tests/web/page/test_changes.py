"""The review: the list first, comments that survive, marks that belong to what was read."""

import re

from playwright.sync_api import expect

from tests.support.showcase import WORKER, Showcase, wait_until
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs, seen
from tests.web.server import Server

MANY = 5000


def test_large_change_is_a_list_first_and_one_file_when_it_is_opened(
    shared: Showcase, server: Server, tabs: Tabs
) -> None:
    make = f"mkdir -p big && for n in $(seq {MANY}); do echo $n > big/file$n.txt; done"
    run = shared.run("Change everything", shared.book("many", {"when": WORKER, "steps": [{"run": make}]}))
    page = tabs.open(server, f"/runs/{run}/changes")
    expect(page.get_by_text("5,000 files")).to_be_visible()
    assert not any("/file?path=" in url for url in tabs.requests)
    assert page.locator("button.file").count() < 100
    page.get_by_role("searchbox", name="Find a file").fill("file4999")
    page.get_by_role("button", name=re.compile("^file4999.txt")).click()
    patch = page.get_by_role("region", name="Patch of big/file4999.txt")
    expect(patch.get_by_text("4999", exact=True)).to_be_visible()
    assert len([url for url in tabs.requests if "/file?path=" in url]) == 1


def test_comments_survive_a_reload_and_arrive_as_one_message(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """Of two files, one of them on several lines; each with its place, its lines and its object."""
    texts = [{"write": {"path": f"{name}.py", "text": "a = 1\nb = 2\nc = 3\n"}} for name in ("one", "two")]
    run = shared.run("Write two files", shared.book("review", {"when": WORKER, "steps": texts}))
    page = tabs.open(server, f"/runs/{run}/changes")
    for name, number, text in (("two", 3, "Why three?"), ("one", 1, "A better name, please")):
        page.get_by_role("button", name=re.compile(f"^{name}.py")).click()
        expect(page.get_by_role("region", name=f"Patch of {name}.py")).to_be_visible()
        page.get_by_role("button", name=f"Comment on line {number}").click()
        if name == "one":
            page.get_by_role("button", name="Comment on line 2").click(modifiers=["Shift"])
        page.locator("#line-comment").fill(text)
        page.get_by_role("button", name="Keep the comment").click()
    page.reload()
    expect(page.get_by_text("2 comments, kept in this browser")).to_be_visible()
    expect(page.get_by_text("A better name, please")).to_be_visible()
    page.get_by_role("button", name="Send as one message").click()
    page.get_by_role("textbox", name="What to say first").fill("Nearly there.")
    page.get_by_role("button", name="Send 2 comments").click()
    expect(page.get_by_text("2 comments sent as one message")).to_be_visible()
    expect(page.get_by_text("kept in this browser")).to_be_hidden()
    (message,) = server.get(f"/runs/{run}/queued").json["messages"]
    assert re.fullmatch(
        r"Nearly there\.\n\n"
        r"one\.py, lines 1-2 \(object [0-9a-f]{12}\):\n> a = 1\n> b = 2\nA better name, please\n\n"
        r"two\.py, line 3 \(object [0-9a-f]{12}\):\n> c = 3\nWhy three\?",
        message["text"],
    ), message["text"]


def test_comments_on_finished_work_are_delivered_by_a_resume(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """The run was done. It continues with what the reviewer wants, and is done again."""
    steps = {"write": {"path": "late.txt", "text": "first\n"}}
    wanted = {"when": "Say more", "steps": [{"append": {"path": "late.txt", "text": "a second line\n"}}]}
    run = shared.run("Write it for a review", shared.book("late", wanted, {"when": WORKER, "steps": [steps]}))
    page = tabs.open(server, f"/runs/{run}/changes")
    expect(page.locator("[data-status=done]")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    page.get_by_role("button", name=re.compile("^late.txt")).click()
    page.get_by_role("button", name="Comment on line 1").click()
    page.locator("#line-comment").fill("Say more")
    page.get_by_role("button", name="Keep the comment").click()
    page.get_by_role("button", name="Send as one message").click()
    page.get_by_role("button", name="Send 1 comment").click()
    expect(page.get_by_text("resume the run to deliver it")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    wait_until(lambda: len(events(shared, run, "session.end")) > 2)
    expect(page.locator("[data-status=done]")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    renew = page.get_by_role("button", name="The files changed. Show them")
    renew.click()
    expect(page.get_by_text("a second line", exact=True)).to_be_visible()


def test_reviewed_mark_ends_when_the_file_changes(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """And what is being read, or written, is replaced only when the reader asks for it."""
    gate = shared.folder / "change-it"
    steps = [
        {"write": {"path": "kept.txt", "text": "kept\n"}},
        {"write": {"path": "moving.txt", "text": "first\n"}},
        {"wait_for": str(gate)},
        {"write": {"path": "moving.txt", "text": "second\n"}},
    ]
    run = shared.detach("Change what was read", shared.book("moving", {"when": WORKER, "steps": steps}))
    wait_until(lambda: len(events(shared, run, "tool.returned")) >= 2)
    page = tabs.open(server, f"/runs/{run}/changes")
    for name in ("kept.txt", "moving.txt"):
        page.get_by_role("button", name=re.compile(f"^{name}")).click()
        expect(page.get_by_role("region", name=f"Patch of {name}")).to_be_visible()
        page.get_by_role("button", name="Mark reviewed").click()
    expect(page.get_by_text("2 reviewed")).to_be_visible()
    page.get_by_role("button", name=re.compile("^moving.txt")).click()
    expect(page.get_by_text("first", exact=True)).to_be_visible()
    page.get_by_role("button", name="Comment on line 1").click()
    page.locator("#line-comment").fill("half a thought")
    gate.touch()
    expect(page.locator("[data-status=done]")).to_be_visible()
    renew = page.get_by_role("button", name="The files changed. Show them")
    expect(renew).to_be_visible()
    assert seen(page, "first")
    expect(page.locator("#line-comment")).to_have_value("half a thought")
    renew.click()
    expect(page.get_by_text("1 reviewed")).to_be_visible()
    expect(page.get_by_text("second", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Mark reviewed")).to_be_visible()

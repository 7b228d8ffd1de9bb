"""A phase that waits for approval: its document is read on the page; changes are asked for before it is approved."""

from playwright.sync_api import expect

from tests.support.cli_stage import ACCEPT, SUBMIT
from tests.support.pipelines import PLANNER, plan
from tests.support.showcase import HELLO, WORKER, Showcase
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs
from tests.web.server import Server

WANTED = "a second note, please"
FLOW = """\
name: gated
about: a plan that a person approves
case: true
phases:
- {name: planning, role: planner, approval: true}
- {name: building, kind: tasks}
"""


def test_document_is_changed_on_request_and_then_approved(shared: Showcase, server: Server, tabs: Tabs) -> None:
    flow = shared.folder / "gated.yaml"
    flow.write_text(FLOW, encoding="utf-8")
    more = {"when": f"(?s)You are the planner.*{WANTED}", "steps": [plan("A", "B")]}
    judge = {"when": "You are the evaluator", "steps": [ACCEPT]}
    book = shared.book("gated", more, PLANNER, judge, {"when": WORKER, "steps": [*HELLO, SUBMIT]})
    run = shared.detach("Write a note", book, "--workflow", str(flow))
    shared.wait_for_need(run)
    shared.wait_for_end(run)

    page = tabs.open(server, f"/runs/{run}/plan")
    gate = page.get_by_role("region", name="Approval of planning")
    expect(gate).to_contain_text("A: make A")
    expect(gate).not_to_contain_text("B: make B")
    gate.get_by_role("button", name="Request changes…").click()
    assert gate.get_by_role("button", name="Request changes", exact=True).is_disabled()
    gate.get_by_role("textbox", name="What should change").fill(WANTED)
    gate.get_by_role("button", name="Request changes", exact=True).click()
    expect(gate.get_by_role("status")).to_contain_text("takes effect when the run resumes")
    page.get_by_role("button", name="Resume").click()
    expect(gate).to_contain_text("round 2")
    expect(gate).to_contain_text("B: make B")
    shared.wait_for_end(run)

    gate.get_by_role("button", name="Approve").click()
    expect(gate.get_by_role("status")).to_contain_text("takes effect when the run resumes")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("[data-status=done]")).to_be_visible()
    expect(gate).to_have_count(0)
    assert [data["approved"] for data in events(shared, run, "approval.answered")] == [False, True]
    assert len(events(shared, run, "task.completed")) == 2

"""The conversation: text as it comes, rows that stay under the eye, hostile text, queued messages, rewind and fork."""

import itertools
import re
import time

from playwright.sync_api import Locator, Page, expect

from tests.support.showcase import HELLO, WORKER, Showcase, wait_until
from tests.support.wait import PATIENCE
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs, is_on_top
from tests.web.server import Server

# Notes in each frame how far the row in the middle of the list has moved since it was chosen.
_WATCH_ROW = """list => {
  const box = list.getBoundingClientRect();
  const row = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2).closest('[data-row]');
  const top = row.getBoundingClientRect().top;
  window.watched = {worst: 0, frames: 0, text: row.innerText};
  const look = () => {
    window.watched.frames++;
    const moved = row.isConnected ? Math.abs(row.getBoundingClientRect().top - top) : Infinity;
    window.watched.worst = Math.max(window.watched.worst, moved);
    requestAnimationFrame(look);
  };
  look();
}"""
# Notes each text that the newest message of the agent had, frame by frame.
_WATCH_TEXT = """() => {
  window.said = [];
  const look = () => {
    const found = [...document.querySelectorAll('[data-speaker=agent] .prose')].map(one => one.textContent).join('');
    if (found !== window.said.at(-1)) window.said.push(found);
    requestAnimationFrame(look);
  };
  look();
}"""


def scroll_until(page: Page, pixels: int, shown: Locator) -> None:
    """Turn the wheel until this is in the document: a list that still comes to rest at its end undoes a turn."""
    deadline = time.monotonic() + PATIENCE
    while shown.count() == 0:
        assert time.monotonic() < deadline, shown
        page.mouse.wheel(0, pixels)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_row_under_the_eye_stays_while_others_arrive(shared: Showcase, server: Server, tabs: Tabs) -> None:
    gate = shared.folder / "more-rows"
    rows = [{"tool": "look again"}, {"say": "A line of text.\n\nAnd another one, which is a little longer."}]
    steps = [
        {"repeat": {"times": 60, "steps": rows}},
        {"wait_for": str(gate)},
        {"repeat": {"times": 120, "steps": rows}},
        {"tool": "the last look"},
    ]
    run = shared.detach("Stay where I read", shared.book("anchor", {"when": WORKER, "steps": steps}))
    wait_until(lambda: len(events(shared, run, "tool.called")) == 60)
    page = tabs.open(server, f"/runs/{run}")
    stream = page.get_by_role("region", name="Messages")
    expect(stream.get_by_text("look again").last).to_be_visible()
    stream.hover()
    newest = page.get_by_role("button", name=re.compile("newest|new$"))
    scroll_until(page, -1500, newest)
    stream.evaluate(_WATCH_ROW)
    gate.touch()
    expect(page.locator("[data-status=done]")).to_be_visible()
    expect(newest).to_contain_text("new")
    page.wait_for_function("window.watched.frames > 10")
    watched = page.evaluate("window.watched")
    assert watched["worst"] <= 1, watched
    newest.click()
    expect(page.get_by_text("the last look")).to_be_visible()


def test_live_text_becomes_recorded_text_without_a_jump(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """What is shown only ever grows: nothing twice, nothing gone for a frame. The log has it in fewer, larger parts."""
    parts: list[tuple[int, int]] = []
    for delay in (0.002, 0.02, 0.1):  # a busy machine draws seldom: it is given more time
        recorded, said = speak_at_length(shared, server, tabs, delay)
        assert len(recorded) > 1
        if len(said) > len(recorded) + 2:
            return
        parts.append((len(recorded), len(said)))
    raise AssertionError(parts)


def speak_at_length(shared: Showcase, server: Server, tabs: Tabs, delay: float) -> tuple[list[str], list[str]]:
    """The parts of a long text as the log has them, and what the page showed of it, one after the other."""
    gate = shared.folder / f"speak-{delay}"
    words = " ".join(f"word{number}" for number in range(3000))  # several times what the log takes as one part
    steps = [{"tool": "a breath"}, {"wait_for": str(gate)}, {"say": {"text": words, "chunk": 60, "delay": delay}}]
    run = shared.detach("Speak at length", shared.book(f"speaker-{delay}", {"when": WORKER, "steps": steps}))
    page = tabs.open(server, f"/runs/{run}")
    expect(page.get_by_text("a breath")).to_be_visible()
    page.evaluate(_WATCH_TEXT)
    gate.touch()
    expect(page.locator("[data-status=done]")).to_be_visible()
    expect(page.get_by_text("word2999")).to_have_count(1)
    page.wait_for_function("window.said.at(-1).includes('word2999')")
    said: list[str] = page.evaluate("window.said")
    recorded = [data["text"] for data in events(shared, run, "message.recorded") if data["speaker"] == "agent"]
    assert "".join(recorded) == words
    assert said[-1].strip() == words
    for before, after in itertools.pairwise(said):
        assert after.startswith(before.rstrip()), (before[-80:], after[-80:])
    return recorded, said


HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script><svg onload="window.hacked=3"></svg>'
    "\n\n[press me](javascript:window.hacked=4) and [there](http://evil.test/page)"
    "\n\n![picture](http://evil.test/track.png)\n\n<iframe src='http://evil.test'></iframe><style>*{display:none}</style>"
)


def test_hostile_text_is_inert_everywhere(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """In messages, tool calls, requests, names of files and goals: shown as text, and nothing is fetched or run."""
    attack = '<img src=x onerror="window.hacked=5">'
    steps = [
        {"say": HOSTILE},
        {"think": HOSTILE},
        {"tool": {"title": attack, "content": [HOSTILE], "input": {"x": attack}}},
        {"write": {"path": "<img src=x onerror=alert(1)>.md", "text": attack + "\n"}},
        {"plan": [attack]},
        {
            "permission": {
                "title": attack,
                "kind": "edit",
                "locations": ["same", "same"],
                "content": [{"diff": {"path": "same", "old": old, "new": attack}} for old in ("a", "b")],
                "options": ["allow_once", "allow_once"],
            }
        },
    ]
    run = shared.detach(f"{attack} the goal", shared.book("hostile", {"when": WORKER, "steps": steps}))
    shared.wait_for_need(run)
    page = tabs.open(server, "/")
    expect(page.locator(f'[data-run="{run}"]').get_by_text(attack).first).to_be_visible()
    for tab in ("conversation", "plan", "changes", "log"):
        page.goto(f"{server.url}/runs/{run}/{tab}")
        expect(page.get_by_role("heading", name="the goal")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.locator("main img, main iframe, main script, main style").count() == 0
    page.goto(f"{server.url}/runs/{run}/conversation")
    expect(page.get_by_text("press me").first).to_be_visible()
    folded = page.get_by_role("region", name="Messages").locator("button[aria-expanded=false]")
    while folded.count() > 0:  # a row can leave the list between a look at it and a click on it
        folded.evaluate_all("buttons => buttons.forEach(button => button.click())")
    link = page.get_by_role("link", name="there").first
    assert link.get_attribute("rel") in ("noopener noreferrer nofollow", "noopener noreferrer")
    assert page.locator("a[href^='javascript']").count() == 0
    page.goto(f"{server.url}/search?q=hacked")
    expect(page.get_by_role("region", name=run)).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert not any("evil.test" in url for url in tabs.requests)


def test_rows_of_every_kind_line_up(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """And what the agent said before it asked stands before the request."""
    ask = {"permission": {"title": "Deploy", "input": {"command": "deploy"}, "options": ["allow_once", "reject_once"]}}
    steps = [{"plan": ["One", "Two"]}, {"think": "Hm."}, {"tool": "a look"}, {"say": "I would deploy now."}, ask]
    run = shared.detach("Line up", shared.book("lines", {"when": WORKER, "steps": steps}))
    shared.wait_for_need(run)
    page = tabs.open(server, f"/runs/{run}")
    expect(page.get_by_text("waits for an answer")).to_be_visible()
    expect(page.get_by_text("T-1 worker waits for your answer")).to_be_visible()
    rows = page.get_by_role("region", name="Messages").locator("[data-kind]")
    kinds = [row.get_attribute("data-kind") for row in rows.all()]
    assert {"message", "tool", "plan", "permission", "note"} <= set(kinds)
    assert kinds[-2:] == ["message", "permission"]
    assert len({(box["x"], box["width"]) for row in rows.all() if (box := row.bounding_box()) is not None}) == 1


def test_queued_message_is_changed_and_taken_back(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """In any run. What an agent is then told is what the person left."""
    gate = shared.folder / "listen"
    run = shared.detach("Wait for words", shared.book("waits", {"when": WORKER, "steps": [{"wait_for": str(gate)}]}))
    page = tabs.open(server, f"/runs/{run}")
    composer = page.get_by_role("textbox", name="Message to")
    expect(page.get_by_text("Queued until the next turn.")).to_be_visible()
    for text in ("first words", "second words"):
        composer.fill(text)
        composer.press("Enter")
        expect(page.get_by_label("Messages that no prompt").get_by_text(text)).to_be_visible()
    waiting = page.get_by_label("Messages that no prompt").get_by_role("listitem")
    waiting.filter(has_text="first").get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="The queued message").fill("better words")
    page.get_by_role("button", name="Save").click()
    expect(waiting.filter(has_text="better words")).to_have_count(1)
    waiting.filter(has_text="second").get_by_role("button", name="Delete").click()
    expect(waiting).to_have_count(1)
    assert [each["text"] for each in server.get(f"/runs/{run}/queued").json["messages"]] == ["better words"]
    gate.touch()
    expect(page.locator("[data-status=done]")).to_be_visible()
    prompts = [data["text"] for data in events(shared, run, "message.recorded") if data["speaker"] == "user"]
    assert "better words" in prompts[-1]
    assert not any("first words" in prompt or "second words" in prompt for prompt in prompts)


def test_run_is_forked_and_rewound_from_a_message(shared: Showcase, server: Server, tabs: Tabs) -> None:
    run = shared.run("Write it down", shared.book("writes", {"when": WORKER, "steps": HELLO}))
    page = tabs.open(server, f"/runs/{run}")
    said = page.locator("[data-row]").filter(has_text="I wrote hello.txt.")
    said.hover()
    said.get_by_role("button", name="Fork from here…").click()
    dialog = page.get_by_role("dialog", name="Fork the run")
    dialog.get_by_label("Name of the new run").fill("another way")
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_text("forked from").first).to_be_visible()
    assert f"/runs/{run}" not in page.url
    page.goto(f"{server.url}/runs/{run}")
    said.hover()
    said.get_by_role("button", name="Rewind to here…").click()
    dialog = page.get_by_role("dialog", name="Rewind the run")
    expect(dialog).to_contain_text("left behind")
    assert is_on_top(dialog.get_by_role("button", name="Rewind", exact=True))
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    expect(page.get_by_role("region", name="Messages").get_by_text("rewound to")).to_be_visible()
    wait_until(lambda: bool(events(shared, run, "run.rewound")))


def test_link_to_a_place_shows_its_row(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """A permalink by position works for the log and for the conversation, far from the end."""
    steps = [{"repeat": {"times": 150, "steps": [{"say": "round {{n}} "}, {"tool": "look {{n}}"}]}}]
    run = shared.run("Link to it", shared.book("links", {"when": WORKER, "steps": steps}))
    page = tabs.open(server, f"/runs/{run}/log?types=tool.called")
    expect(page.get_by_text("call=").first).to_be_visible()
    stream = page.get_by_role("region", name="Events")
    stream.hover()
    found = stream.get_by_role("button", name=re.compile("look 7\\d")).first
    scroll_until(page, -400, found)
    name = re.search(r"look \d+", found.inner_text())
    assert name is not None
    stream.get_by_role("button", name=re.compile(rf"{name[0]}\b")).click()  # the first may be another one by now
    page.get_by_role("button", name="Link to this event").click()
    expect(page).to_have_url(re.compile(r"at=\d+"))
    position = page.url.partition("at=")[2].partition("&")[0]
    page.goto(f"{server.url}/runs/{run}/conversation?at={position}")
    expect(page.locator(".marked").get_by_text(name[0], exact=True)).to_be_visible()
    page.goto(f"{server.url}/runs/{run}/log?at={position}")
    expect(page.locator(".marked").get_by_text(name[0]).first).to_be_visible()

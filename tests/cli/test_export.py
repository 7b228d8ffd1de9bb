"""`export`: a run as one HTML file that needs nothing and lets nothing in."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from holdfast.core.events.conversation import MessageRecorded, ToolCalled, ToolReturned
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import SessionEnd
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import make_run, said
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE, calls, says
from tests.support.faults import run_with_faults

RUN = "auth-abc234"

_VOID = frozenset({"meta", "input", "hr"})
_MEMORY = 100 * 1024 * 1024
_LIMITED = "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2); "


class Page(HTMLParser):
    """Reads a page as strictly as it was meant: every element that is opened is closed, and in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.words.setdefault(self.open[-1] if self.open else "", []).append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.seen if tag == name]


def exported(holdfast: Program, *options: str) -> Page:
    path = holdfast("export", RUN, "--html", *options).out.strip()
    return Page(Path(path).read_text(encoding="utf-8"))


def test_everything_that_happened_is_in_it(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, *SECOND_WAVE)
    page = exported(holdfast)
    text = re.sub(r"<[^>]*>", "", page.text)
    for words in (
        "Add OAuth login",
        "Wave 2",
        "Design the schema",
        "Tables for users and tokens.",
        "a token expires",
        "iteration 1: rejected",
        "c0ffee1234567890",
        "Then I write the migration.",
        "-  id int\n",
        "+  name text\n",
        "create table users (id int);",
        "T-3: Run rm -rf build",
        "checkpoint: wave-1",
        "$0.42",
    ):
        assert words in text, words
    assert [dict(one).get("class") for one in page.tags("details")].count("conversation") == 3


def test_it_stands_in_the_folder_where_one_is_and_says_so(holdfast: Program) -> None:
    make_run(holdfast.home, RUN)
    assert holdfast("export", "auth", "--html").out == f"{holdfast.cwd}/{RUN}.html\n"
    told = holdfast("export", RUN, "--html", "-o", "page.html", "--json").object
    assert told == {"run": RUN, "file": f"{holdfast.cwd}/page.html", "bytes": os.path.getsize(told["file"])}
    assert holdfast("export", RUN, "-o", "-").out.encode() == Path(told["file"]).read_bytes()
    assert sorted(os.listdir(holdfast.cwd)) == [f"{RUN}.html", "page.html"], "nothing half-written is left"


def test_where_it_cannot_be_written_is_said_in_one_line(holdfast: Program) -> None:
    make_run(holdfast.home, RUN)
    assert holdfast("export", RUN, "-o", ".", code=2).complaint.endswith("is a folder; name a file with -o")
    complaint = holdfast("export", RUN, "-o", "not/there.html", code=2).complaint
    assert complaint == f"the folder {holdfast.cwd}/not does not exist; make it, or name another file with -o"


def test_it_asks_nobody_for_anything_and_runs_no_script_but_its_own(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, *SECOND_WAVE)
    page = exported(holdfast)
    (policy,) = [one["content"] for one in page.tags("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        assert page.tags(tag) == [{}]
        digest = base64.b64encode(hashlib.sha256("".join(page.words[tag]).encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    for _, attributes in page.seen:
        assert not {"src", "action", "style"} & attributes.keys()
        assert str(attributes.get("href", "#")).startswith("#")  # to another place on the page
        assert not any(name.startswith("on") for name in attributes)


def test_nothing_in_a_log_becomes_part_of_the_page(holdfast: Program) -> None:
    evil = "</script></style><script>alert(1)</script><img src=x onerror='alert(1)'>\"'&\0\x1b[2J\x9b\r"
    text = Raw(msgspec.json.encode(evil))
    change = {"type": "diff", "path": evil, "oldText": evil, "newText": evil}
    diff = Raw(msgspec.json.encode([change, 7, {evil: evil}]))
    make_run(
        holdfast.home,
        RUN,
        PlanCreated(tasks=[PlannedTask(id=evil, summary=evil, description=evil, acceptance_criteria=[evil])]),
        MessageRecorded(conversation=evil, speaker=evil, text=evil),
        ToolCalled(conversation=evil, call=evil, tool=evil, input=text),
        ToolReturned(conversation=evil, call=evil, status=evil, output=text, content=diff),
        WarningLogged(message=evil),
        SessionEnd(reason=evil),
        goal=evil,
    )
    page = exported(holdfast)
    assert (len(page.tags("script")), page.tags("img")) == (1, [])
    assert not set(page.text) & set("\0\x1b\x9b\r")


def test_long_parts_are_folded_and_very_long_ones_are_cut(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, says("c", "short"), says("c", "first\n" * 100), says("c", "x" * 300_000))
    page = exported(holdfast)
    assert "600 characters" in page.text
    assert "… 200,000 more characters are in the log" in page.text
    assert len(page.text) < 200_000


def test_a_run_at_work_can_be_exported(holdfast: Program) -> None:
    make_run(holdfast.home, RUN)
    with owner_of(holdfast.home, RUN) as owner:
        owner.say("at work")
        assert "at work" in exported(holdfast).text


def test_a_long_run_does_not_fill_the_memory(holdfast: Program, home: str) -> None:
    events = [
        event
        for number in range(4_000)
        for event in (
            says(f"c{number % 7}", "word " * 4_000),
            calls(f"c{number % 7}", str(number), "Look"),
            ToolReturned(conversation=f"c{number % 7}", call=str(number)),
        )
    ]
    make_run(home, RUN, *events)
    code = f"{_LIMITED} sys.argv[1:] = sys.argv[2:]; from holdfast.app.cli.main import entry; entry()"
    command = [sys.executable, "-c", code, str(_MEMORY), "export", RUN, "-o", "page.html"]
    environment = holdfast.environment({"HOLDFAST_HOME": home})
    subprocess.run(command, cwd=holdfast.cwd, env=environment, check=True, capture_output=True)
    assert os.path.getsize(os.path.join(holdfast.cwd, "page.html")) > 50_000_000


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_runs_its_script_and_complains_of_nothing(holdfast: Program, tmp_path: Path) -> None:
    make_run(holdfast.home, RUN, *FIRST_WAVE, said("a needle in a haystack"))
    holdfast("export", RUN, "-o", "page.html")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    page = f"file://{holdfast.cwd}/page.html"
    done = subprocess.run([*command, "--enable-logging=stderr", "--dump-dom", page], capture_output=True, check=True)
    assert b"Refused to" not in done.stderr, "its own script and style are let in"
    assert b"CONSOLE" not in done.stderr
    assert b"a needle in a haystack" in done.stdout


def test_a_page_that_does_not_come_to_the_disk_takes_nobodys_place(holdfast: Program, tmp_path: Path) -> None:
    make_run(holdfast.home, RUN)
    page = tmp_path / "page.html"
    page.write_text("the one before", encoding="utf-8")
    code = "import sys; from holdfast.app.cli.main import main; sys.exit(0 if main(sys.argv[2:]) == 1 else 9)"
    setting = "import os, sys; os.environ['HOLDFAST_HOME'] = sys.argv[1]; "
    words = ("export", RUN, "-o", os.fspath(page))
    run_with_faults(setting + code, os.fspath(holdfast.home), *words, trace="fsync", faults="fsync:error=EIO")
    assert page.read_text(encoding="utf-8") == "the one before"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]

"""Takes pictures of every page of `holdfast serve`, and of its dialogs, to be looked at.

In three sizes and two themes: a home with a run in every state, with none, with 1,000, with one of 100,000 events.

    .venv/bin/python scripts/screenshots.py [FOLDER] [--only board,new] [--home showcase|empty|many|long]
    .venv/bin/python scripts/screenshots.py --docs

The folder is a temporary one by default, and never in the repository. `--docs` renews the pictures of docs/serve.md
alone, in docs/. Needs `make web browser`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.homes import long_run, many_runs  # noqa: E402 - the repository is on the path only now
from bench.workload import Size  # noqa: E402
from tests.support.showcase import Showcase, stop_all  # noqa: E402
from tests.web.browser import browser_options, sign_in  # noqa: E402
from tests.web.server import Server  # noqa: E402

SIZES = {"375": (375, 760), "1280": (1280, 800), "1920": (1920, 1080)}
PAGES = {
    "board": "/",
    "new": "/new",
    "agents": "/agents",
    "settings": "/settings",
    "search": "/search?q=limits",
    "digest": "/digest?since=24",
}
TABS = ("conversation", "plan", "changes", "terminal", "log")
SHOWN_RUNS = {"showcase": 8, "many": 1, "long": 1}
LONG = Size(500, 100_000)


@contextmanager
def home(kind: str, folder: Path) -> Iterator[str]:
    """A home with these runs; a folder that is kept is used again."""
    if kind == "many":
        yield many_runs(1_000)
        return
    if kind == "long":
        run = long_run(LONG)
        run.with_snapshot()
        yield run.home
        return
    showcase = Showcase(folder / f"place-{kind}")
    if kind == "showcase":
        showcase.all_states()
        showcase.survived()
    try:
        yield showcase.home
    finally:
        stop_all(showcase)


class Album:
    """Takes the pictures of one size and theme."""

    def __init__(self, page: Page, server: Server, out: Path, only: set[str]) -> None:
        self._page, self._server, self._out, self._only = page, server, out, only

    def take(self, name: str, path: str, prepare: Callable[[Page], None] = lambda _: None) -> None:
        if self._only and not any(name.startswith(wanted) for wanted in self._only):
            return
        self._page.goto(self._server.url + path)
        self._page.wait_for_load_state("networkidle")
        prepare(self._page)
        self._page.wait_for_load_state("networkidle")
        self._page.screenshot(path=self._out / f"{name}.png")


def take(album: Album, runs: list[dict[str, str]]) -> None:
    for name, path in PAGES.items():
        album.take(name, path)
    for number, run in enumerate(runs, 1):
        for tab in TABS:
            album.take(f"run-{number}-{run['status']}-{tab}", f"/runs/{run['id']}/{tab}")
    album.take("dialog-palette", "/", lambda page: page.keyboard.press("Control+k"))
    album.take("dialog-keys", "/", lambda page: page.keyboard.press("?"))
    by_status = {run["status"]: run["id"] for run in runs}
    if "failed" in by_status:
        decide = f"/runs/{by_status['failed']}?decide"
        album.take("dialog-decision", decide, lambda page: page.get_by_role("radio").first.check())
    if "done" in by_status:
        merge = f"/runs/{by_status['done']}"
        album.take("dialog-merge", merge, lambda page: page.get_by_role("button", name="Merge…").click())


def take_for_docs() -> None:
    """The pictures of docs/serve.md: small ones, of what a person does there."""
    with tempfile.TemporaryDirectory() as folder:
        showcase = Showcase(Path(folder, "place"))
        try:
            showcase.all_states()
            survived = showcase.survived()
            pages = {"board": "/", "timeline": f"/runs/{survived}/plan"}
            with Server.start(showcase.home, "--no-watch", page=True) as server, sync_playwright() as playwright:
                browser = playwright.chromium.launch(**browser_options())
                context = browser.new_context(viewport={"width": 1120, "height": 620}, color_scheme="light")
                sign_in(context, server)
                page = context.new_page()
                for name, path in pages.items():
                    page.goto(server.url + path)
                    page.wait_for_load_state("networkidle")
                    file = ROOT / f"docs/serve-{name}.png"
                    file.write_bytes(page.screenshot())
                    sys.stderr.write(f"screenshots: {file.relative_to(ROOT)} ({file.stat().st_size // 1000} kB)\n")
                browser.close()
        finally:
            stop_all(showcase)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--only", default="", help="beginnings of names, with commas")
    parser.add_argument("--home", default="showcase", choices=("showcase", "empty", "many", "long"))
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--themes", default="light,dark")
    parser.add_argument("--docs", action="store_true", help="renew the pictures in docs/")
    options = parser.parse_args()
    if options.docs:
        take_for_docs()
        return
    folder = Path(options.folder or tempfile.mkdtemp(prefix="holdfast-pictures-")).resolve()
    if folder.is_relative_to(ROOT):
        sys.exit("screenshots: choose a folder outside the repository")
    only = {name for name in options.only.split(",") if name}
    with (
        tempfile.TemporaryDirectory() as place,
        home(options.home, Path(place)) as chosen,
        Server.start(chosen, "--no-watch", page=True) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(**browser_options())
        for theme in options.themes.split(","):
            for size in options.sizes.split(","):
                out = folder / f"{options.home}-{theme}-{size}"
                out.mkdir(parents=True, exist_ok=True)
                width, height = SIZES[size]
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme="dark" if theme == "dark" else "light"
                )
                sign_in(context, server)
                runs = server.get("/runs").json["runs"][: SHOWN_RUNS.get(options.home, 0)]
                take(Album(context.new_page(), server, out, only), runs)
                context.close()
        browser.close()
    sys.stderr.write(f"screenshots: {folder}\n")


if __name__ == "__main__":
    main()

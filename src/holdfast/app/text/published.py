"""Prints where a run's work was published, and warns about files that are not included."""

import json
import sys

from holdfast.app.text.screen import paint, pluralize, printable
from holdfast.engine.commands.publish import PublishedBranch


def print_published(verb: str, published: PublishedBranch, *, as_json: bool) -> None:
    warn_uncommitted(published)
    if as_json:
        print(json.dumps(published._asdict(), ensure_ascii=False))
        return
    done = paint(f"{'already ' if published.already else ''}{verb}", "green")
    print(f"{printable(published.branch)}  {done} {printable(published.target)}  at {published.commit[:12]}")


def warn_uncommitted(published: PublishedBranch) -> None:
    if published.uncommitted:
        files = pluralize(published.uncommitted, "changed file")
        sys.stderr.write(f"not included: {files} in the run's worktree that are not committed\n")
    if published.hook_not_run is not None:
        hook = printable(published.hook_not_run)
        sys.stderr.write(f"not run: the hook {hook}; it is a file of the repository, which agents can write\n")

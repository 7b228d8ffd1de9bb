"""Where a run's work went, in one line; and what did not go with it."""

import json
import sys

from holdfast.app.text.screen import counted, paint, plain
from holdfast.engine.workspace.publish import Published


def print_published(verb: str, published: Published, *, as_json: bool) -> None:
    warn_uncommitted(published)
    if as_json:
        print(json.dumps(published._asdict(), ensure_ascii=False))
        return
    done = paint(f"{'already ' if published.already else ''}{verb}", "green")
    print(f"{plain(published.branch)}  {done} {plain(published.target)}  at {published.commit[:12]}")


def warn_uncommitted(published: Published) -> None:
    if published.uncommitted:
        files = counted(published.uncommitted, "changed file")
        sys.stderr.write(f"not included: {files} in the run's worktree, in no commit yet\n")

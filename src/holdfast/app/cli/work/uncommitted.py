"""Names the uncommitted files of the checkout that a new run does not begin with."""

from holdfast.app.text.screen import pluralize, printable, warn
from holdfast.engine.queries.setup.project import uncommitted_changes

_MAX_NAMED = 5


async def warn_of_changes(repo: str) -> None:
    """One line on stderr; nothing when everything is committed."""
    line = await changes_left_out(repo)
    warn([line] if line is not None else [])


async def changes_left_out(repo: str) -> str | None:
    """Return a line that names the uncommitted files; None when everything is committed."""
    paths = await uncommitted_changes(repo)
    if not paths:
        return None
    more = f" and {len(paths) - _MAX_NAMED} more" if paths[_MAX_NAMED:] else ""
    names = ", ".join(printable(path) for path in paths[:_MAX_NAMED])
    verb = "is" if len(paths) == 1 else "are"
    return (
        f"{pluralize(len(paths), 'uncommitted file')} of your checkout {verb} not part of the run "
        f"({names}{more}); start it with --include-changes to take them along"
    )

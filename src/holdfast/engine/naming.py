"""Finding a run by the name a person typed: its id, its slug or the name it was given, or the beginning of its id."""

import os

from holdfast.leaf.errors import BadInput, NoSuchRun
from holdfast.leaf.ids import slug_of
from holdfast.store.files.layout import LOG, run_folder, runs_folder

_SUFFIX_CHARS = 7  # "-" and the six characters that make a slug an id


def find_run(home: str, name: str) -> str:
    if _is_run(home, name):
        return name
    ids = run_ids(home)
    slugs = [run_id for run_id in ids if run_id[:-_SUFFIX_CHARS] == name]
    starts = [run_id for run_id in ids if name and run_id.startswith(name)]
    for matches in (slugs, _ids_with_slug_of(ids, name), starts):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise BadInput(f"{name!r} could be any of {_join_ids(matches)}; type more of the one you mean")
    raise NoSuchRun(f"there is no run {name!r} under {home}; `holdfast ls` lists them")


def _ids_with_slug_of(ids: list[str], name: str) -> list[str]:
    """Runs whose slug was made from this name: `--name FailB` is found as `FailB`.

    A path or a name without a single letter or digit names none: its slug would be that of any other such name.
    """
    if os.sep in name or not any(char.isascii() and char.isalnum() for char in name):
        return []
    slug = slug_of(name)
    return [run_id for run_id in ids if run_id[:-_SUFFIX_CHARS] == slug]


def _join_ids(run_ids: list[str], limit: int = 8) -> str:
    more = f" and {len(run_ids) - limit} more" if len(run_ids) > limit else ""
    return ", ".join(run_ids[:limit]) + more


def run_ids(home: str) -> list[str]:
    try:
        names = os.listdir(runs_folder(home))
    except FileNotFoundError:
        return []
    return sorted(name for name in names if _is_run(home, name))


def _is_run(home: str, name: str) -> bool:
    """True of an id. A name that is a path is none, whatever it leads to."""
    return (
        name not in ("", os.curdir, os.pardir)
        and os.sep not in name
        and "\0" not in name
        and os.path.exists(os.path.join(run_folder(home, name), LOG))
    )

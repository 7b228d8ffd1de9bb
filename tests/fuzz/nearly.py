"""What is nearly right, as documents: those that people and programs write, with a few of their values changed.

What chance makes of bytes is mostly refused by the first that looks at it; what is well formed gets further.
"""

import copy
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.fuzz.mutation import mutated
from tests.fuzz.nonsense import LINES
from tests.fuzz.seeds import (
    DEEDS,
    FLAGS,
    FRAMES,
    LOG,
    MESSAGES,
    PAGES,
    PLAYBOOKS,
    REPORTS,
    SETTINGS,
    TASKS_JSON,
    TASKS_YAML,
    WORKFLOWS,
)

Bytes = st.SearchStrategy[bytes]

_MOST = 3  # changes of a document, and documents that come one after the other
_DEEP = re.compile(r'"@DEEP (\d+)@"')  # stands for something that is nested so many times
_WORDS = [
    *("", " ", "\0", "\n", "\x1b[2J", "é\u2028\U0001f600", "x" * 300),
    *("@DEEP 50@", "@DEEP 150@", "@DEEP 5000@"),
    *("..", "/", "kept/new", "../beside/kept", "@WORK@", "@WORK@/kept", "@WORK@/new/new", "@WORK@/.git/config"),
    *("@WORK@/out/kept", "@WORK@/leak", "@WORK@/../beside/new", "@BESIDE@", "@BESIDE@/kept"),
]
_NUMBERS = [0, 1, -1, 2**31, -(2**63), 10**40, 0.5, 1e308, -0.0]
_TEXTS = st.sampled_from(_WORDS) | st.text(max_size=4)
_SCALARS = st.none() | st.booleans() | st.sampled_from(_NUMBERS) | _TEXTS
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
_WAYS = ["like it", "like it", "like it", "known", "any", "name", "drop", "wrap"]


def _changed(documents: list[Any]) -> st.SearchStrategy[Any]:
    """One of them, with values dropped, replaced by others, or put where they do not belong."""
    known = [(key, holder[key]) for document in documents for holder, key in _places(document)]
    like: dict[type, list[Any]] = {}
    for _, value in known:
        like.setdefault(type(value), []).append(value)

    @st.composite
    def drawn(draw: st.DrawFn) -> Any:
        box = [copy.deepcopy(draw(st.sampled_from(documents)))]
        for _ in range(draw(st.integers(1, _MOST))):
            holder, key = draw(st.sampled_from(list(_places(box))))
            match draw(st.sampled_from(_WAYS)):
                case "like it" if isinstance(holder[key], str):
                    holder[key] = draw(_TEXTS | st.sampled_from(like[str]))
                case "like it" if type(holder[key]) in like:
                    holder[key] = copy.deepcopy(draw(st.sampled_from(like[type(holder[key])])))
                case "known":
                    holder[key] = copy.deepcopy(draw(st.sampled_from(known))[1])
                case "any":
                    holder[key] = draw(_VALUES)
                case "name" if isinstance(holder, dict):
                    holder[draw(st.sampled_from(known))[0]] = copy.deepcopy(holder[key])
                case "drop" if holder is not box:
                    del holder[key]
                case _:
                    holder[key] = [holder[key]]
        return box[0]

    return drawn()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Wherever a value stands: what holds it, and by which key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


# --- as they are written -----------------------------------------------------------------------------


def _json(value: Any) -> bytes:
    """YAML too."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _DEEP.sub(lambda deep: "[" * int(deep[1]) + "]" * int(deep[1]), text).encode(errors="surrogatepass")


def _toml(value: Any) -> bytes:
    if not isinstance(value, dict):
        return _json(value)
    return b"".join(_json(str(key)) + b" = " + _inline(one) + b"\n" for key, one in value.items())


def _inline(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"{" + b", ".join(_json(str(key)) + b" = " + _inline(one) for key, one in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b", ".join(map(_inline, value)) + b"]"
    return _json(value)


def _page(page: Any) -> bytes:
    front, text = page if isinstance(page, list) and len(page) == len(("front", "text")) else (page, "")
    return b"---\n" + _json(front) + b"\n---\n" + str(text).encode(errors="surrogatepass")


def _parts(between: bytes, *whole: int) -> Callable[[Any], bytes]:
    """The elements of a list, of which these are JSON and the others plain words."""

    def written(value: Any) -> bytes:
        parts = value if isinstance(value, list) else [value]
        return between.join(
            _json(part) if number in whole else str(part).encode(errors="surrogatepass")
            for number, part in enumerate(parts)
        )

    return written


# --- what is read ------------------------------------------------------------------------------------


def _of(seeds: Iterable[bytes], read: Callable[[bytes], Any], write: Callable[[Any], bytes]) -> Bytes:
    """Their documents, changed; or what chance makes of their bytes."""
    known = list(seeds)
    bytes_of_chance = st.randoms(use_true_random=False).map(lambda dice: mutated(known, dice))
    return _changed([read(seed) for seed in known]).map(write) | bytes_of_chance


def _lines(seeds: Iterable[bytes], others: Iterable[bytes] = ()) -> Bytes:
    """Documents line by line, with other lines between them."""
    lines = [line for seed in seeds for line in seed.splitlines(keepends=True)]
    line = _of(lines, json.loads, lambda document: _json(document) + b"\n")
    return st.lists(line | st.sampled_from([*others, *lines]), min_size=1, max_size=_MOST).map(b"".join)


def _yaml(seeds: list[bytes]) -> Bytes:
    return _of(seeds, yaml.safe_load, _json)


def _front(page: bytes) -> list[Any]:
    _, front, text = page.decode().split("---\n", 2)
    return [yaml.safe_load(front), text]


def _flag(flag: bytes) -> list[Any]:
    name, _, value = flag.decode().partition("=")
    return [name, json.loads(value) if value[0] in "[0123456789" and value[-1] != "h" else value]


def _report(report: bytes) -> list[Any]:
    role, tool, arguments = report.decode().split(" ", 2)
    return [role, tool, json.loads(arguments)]


def _messages() -> Bytes:
    """Of the kinds that there are, saying anything at all."""
    heads = [json.loads(message) for message in MESSAGES]
    kinds = sorted({head["data"]["kind"] for head in heads})
    said = st.tuples(st.text(max_size=2), st.sampled_from(kinds), _VALUES)

    def written(message: tuple[str, str, Any]) -> bytes:
        name, kind, body = message
        return _json({**heads[0], "data": {"id": name, "kind": kind, "body": body}}) + b"\n"

    return st.lists(said.map(written), min_size=1, max_size=_MOST).map(b"".join)


_PAGE = _of(PAGES[:1], _front, _page)
_CONFIG = _of(SETTINGS, lambda seed: tomllib.loads(seed.decode()), _toml)

NEARLY: dict[str, Bytes] = {
    "tasks.json": _of(TASKS_JSON, json.loads, _json),
    "tasks.yaml": _yaml(TASKS_YAML),
    "page.md": _PAGE,
    "pages": st.lists(_PAGE, min_size=1, max_size=_MOST).map(
        lambda pages: b"\n====\n".join(b"T-%d.md\n%s" % (number, page) for number, page in enumerate(pages))
    ),
    "config": _CONFIG,
    "project": _CONFIG,
    "flags": _of(FLAGS, _flag, _parts(b"=", 1)),
    "workflow": _yaml(WORKFLOWS),
    "playbook": _yaml(PLAYBOOKS),
    "log": _lines(LOG),
    "inbox": _lines(MESSAGES) | _messages(),
    "report": _of(REPORTS, _report, _parts(b" ", 2)),
    "frames": _lines(FRAMES, LINES) | _lines(DEEDS),
}

"""The line of each key of a TOML document, in every way in which TOML can write one."""

import json
import tomllib
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.toml_lines import KeyPath, format_toml_path, key_lines, parse_key


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", {}),
        ("# a = 1\n\na = 1 # b = 2\n", {"a": 3}),
        ("a = 1\nb.c . d = 2", {"a": 1, "b": 2, "b.c": 2, "b.c.d": 2}),
        ("[a]\nb = 1\n\n[a.c]\nd = 1", {"a": 1, "a.b": 2, "a.c": 4, "a.c.d": 5}),
        ("[a.b]\nc = 1\n[a]\nd = 1", {"a": 3, "a.b": 1, "a.b.c": 2, "a.d": 4}),
        ("[ a . 'b c' ]\n\"d.e\" = 1", {"a": 1, 'a."b c"': 1, 'a."b c"."d.e"': 2}),
        ("[[a]]\nb = 1\n[[a]]\nb = 1", {"a": 1, "a[0]": 1, "a[0].b": 2, "a[1]": 3, "a[1].b": 4}),
        ("[[a]]\n[[a]]\n[a.b]\nc = 1", {"a": 1, "a[0]": 1, "a[1]": 2, "a[1].b": 3, "a[1].b.c": 4}),
        (
            "[[a]]\n[[a.b]]\n[[a.b]]\nc=1",
            {"a": 1, "a[0]": 1, "a[0].b": 2, "a[0].b[0]": 2, "a[0].b[1]": 3, "a[0].b[1].c": 4},
        ),
        ("a = {b = 1, 'c' = {d = 2}}", {"a": 1, "a.b": 1, "a.c": 1, "a.c.d": 1}),
        ("a = [\n  1, # ]\n  [2,\n 3],\n]\nb = 1", {"a": 1, "a[0]": 2, "a[1]": 3, "a[1][0]": 3, "a[1][1]": 4, "b": 6}),
        ("a = [{b = 1},\n{b = 2}]", {"a": 1, "a[0]": 1, "a[0].b": 1, "a[1]": 2, "a[1].b": 2}),
        ('a = """\nb = 1\n[c]\n\\"""" \nd = 1', {"a": 1, "d": 5}),
        ('a = """x"""""\nb = 1', {"a": 1, "b": 2}),
        ("a = '''\n[b]\n'''''\nc = '''\n'''\n", {"a": 1, "c": 4}),
        ("a = ''\nb = \"\"\nc = ''''''\nd = \"\\\"\"", {"a": 1, "b": 2, "c": 3, "d": 4}),
        ("a = 1979-05-27 07:32:00 # x\nb = -1_000.5e3\nc = inf", {"a": 1, "b": 2, "c": 3}),
        ('"a\\nb" = 1\n"\\u00e9" = 2', {'"a\\U0000000Ab"': 1, '"é"': 2}),
        ("1.2 = 3\ntrue = 4", {"1": 1, "1.2": 1, "true": 2}),
        ("a = []\nb = {}\nc = [ ]\nd = { }", {"a": 1, "b": 2, "c": 3, "d": 4}),
    ],
)
def test_each_key_has_the_line_on_which_it_is_written(text: str, lines: dict[str, int]) -> None:
    tomllib.loads(text)
    assert {format_toml_path(path): line for path, line in key_lines(text).items()} == lines


KEYS = st.sampled_from(["a", "b", "c-d", "1", "x y", "p.q", "é", "#", "=", "[", '"', "'", "\\", "", "\t"])
TEXTS = st.sampled_from(["", "x", "# no", "[a]\nb = 1\n", 'say "x"', "it's", "a\\", "]}", ",", "\n\n", '"""', "'''"])
SCALARS = st.integers() | st.booleans() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)


class Writer:
    """Writes a document in ways that are chosen by chance, and remembers what it wrote where."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def table(self, path: KeyPath, table: dict[str, Any]) -> None:
        """First what stands in it, then the tables that have headers of their own."""
        later = []
        for key, value in table.items():
            if _can_have_headers(value) and self._choose(2):
                later.append(key)
            elif isinstance(value, dict) and value and self._choose(2):
                for name, inner in value.items():
                    self._line(path, [key, name], inner)
            else:
                self._line(path, [key], value)
        for key in later:
            self._headed((*path, key), table[key])

    def _headed(self, path: KeyPath, value: Any) -> None:
        if isinstance(value, dict):
            self._noise()
            self._header(path, "[", "]")
            self.table(path, value)
            return
        for number, one in enumerate(value):
            self._noise()
            self._note(path)
            self._header((*path, number), "[[", "]]")
            self.table((*path, number), one)

    def _header(self, path: KeyPath, begin: str, end: str) -> None:
        self.lines[path] = self._here
        self.text += begin + self._space()
        self._name([part for part in path if isinstance(part, str)])
        self.text += end + self._space() + ("# [x]" if self._choose(2) else "") + "\n"

    def _line(self, path: KeyPath, parts: list[str], value: Any) -> None:
        self._noise()
        self._pair(path, parts, value)
        self.text += self._space() + ("# x = 1" if self._choose(2) else "") + "\n"

    def _pair(self, path: KeyPath, parts: list[str], value: Any) -> None:
        for count in range(1, len(parts) + 1):
            self._note((*path, *parts[:count]))
        self._name(parts)
        self.text += "=" + self._space()
        self._value((*path, *parts), value)

    def _name(self, parts: list[str]) -> None:
        for number, part in enumerate(parts):
            literal = "'" not in part and "\t" not in part and self._choose(2)
            bare = part in ("a", "b", "c-d", "1") and self._choose(2)
            self.text += "." + self._space() if number else ""
            self.text += (
                part if bare else f"'{part}'" if literal else json.dumps(part, ensure_ascii=False)
            ) + self._space()

    def _value(self, path: KeyPath, value: Any) -> None:
        if isinstance(value, dict):
            self.text += "{" + self._space()
            for number, (key, one) in enumerate(value.items()):
                self.text += "," + self._space() if number else ""
                self._pair(path, [key], one)
            self.text += "}"
        elif isinstance(value, list):
            self.text += "[" + self._break()
            for number, one in enumerate(value):
                self.text += "," + self._break() if number else ""
                self._note((*path, number))
                self._value((*path, number), one)
                self.text += self._break()
            self.text += "]"
        else:
            self.text += self._scalar(value)

    def _scalar(self, value: Any) -> str:
        if not isinstance(value, str):
            return json.dumps(value)
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        ways = [json.dumps(value, ensure_ascii=False), f'"""\n{escaped}"""', f'"""{escaped.lstrip(chr(10))}"""']
        ways = ways if not value.startswith("\n") else ways[:2]
        if "'''" not in value and not value.endswith("'"):
            ways.append(f"'''\n{value}'''")
        if "'" not in value and "\n" not in value:
            ways.append(f"'{value}'")
        return ways[self._choose(len(ways))]

    def _noise(self) -> None:
        self.text += ["", "\n", "# [a]\n", "  "][self._choose(4)]

    def _break(self) -> str:
        return ["", " ", "\n", " # ] }\n\t"][self._choose(4)]

    def _space(self) -> str:
        return ["", " ", "\t "][self._choose(3)]

    def _note(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self._here)

    @property
    def _here(self) -> int:
        return self.text.count("\n") + 1


def _can_have_headers(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
    )


@given(DOCUMENTS, st.lists(st.integers(0, 11), min_size=1, max_size=60))
def test_whatever_is_written_in_whatever_way_is_found_where_it_was_written(
    document: dict[str, Any], chances: list[int]
) -> None:
    tape = cycle(chances)
    writer = Writer(lambda ways: next(tape) % ways)
    writer.table((), document)
    assert tomllib.loads(writer.text) == document
    assert key_lines(writer.text) == writer.lines


@given(st.lists(st.text(), min_size=1, max_size=4).map(tuple))
def test_a_spelled_path_is_read_as_the_same_path(path: tuple[str, ...]) -> None:
    assert parse_key(format_toml_path(path)) == path


@pytest.mark.parametrize(
    "name", ["", ".", "a.", "a b", "a = 1 # ", "a\nb", '"a', "[a]", "a.b]", chr(34) + "\\x" + chr(34)]
)
def test_what_is_no_name_is_told(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a setting"):
        parse_key(name)

"""Quicker imports load the same."""

import subprocess
import sys

_IMPORT = """\
import sys
from holdfast.leaf.importing import import_msgspec
import_msgspec()
assert "msgspec" in sys.modules
assert "typing_extensions" not in sys.modules
import typing, msgspec
class Wanted(typing.TypedDict):
    name: typing.Required[str]
    size: typing.NotRequired[typing.Annotated[int, msgspec.Meta(ge=0)]]
assert msgspec.convert({"name": "x"}, Wanted) == {"name": "x"}
for wrong in ({}, {"name": "x", "size": -1}):
    try:
        msgspec.convert(wrong, Wanted)
    except msgspec.ValidationError:
        continue
    raise AssertionError(wrong)
import typing_extensions
import_msgspec()
"""


def test_msgspec_does_without_a_package_that_loads_slowly() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

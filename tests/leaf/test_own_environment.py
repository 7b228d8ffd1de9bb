"""The environment of a project's programs lacks Holdfast's own virtual environment."""

import os
import sys

from holdfast.leaf.process.own_program import without_own_environment, without_own_programs


def test_own_virtual_environment_is_not_on_the_path_of_others() -> None:
    """The tests run in one, as `make setup` makes it."""
    own = os.path.join(sys.prefix, "bin")
    assert sys.prefix != sys.base_prefix
    assert without_own_programs(f"/usr/bin:{own}:{own}/:/bin") == "/usr/bin:/bin"
    given = {"PATH": f"{own}:/bin", "VIRTUAL_ENV": sys.prefix, "LANG": "C"}
    assert without_own_environment(given) == {"PATH": "/bin", "LANG": "C"}
    assert without_own_environment({"VIRTUAL_ENV": "/the/projects"}) == {"VIRTUAL_ENV": "/the/projects"}

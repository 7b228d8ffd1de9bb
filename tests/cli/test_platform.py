"""Only Linux is tested, and other systems are told so."""

from holdfast.app.cli.main import platform_problem


def test_other_systems_get_one_clear_line() -> None:
    assert platform_problem("linux") is None
    for name in ("darwin", "win32", "freebsd14"):
        problem = platform_problem(name)
        assert problem is not None
        assert f"this system is {name}" in problem
        assert "\n" not in problem

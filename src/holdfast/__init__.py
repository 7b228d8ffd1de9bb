"""Holdfast runs coding agents on a git repository, and survives anything."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.home import Home as Home

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import `Home` when it is first used: every command imports this package."""
    if name == "Home":
        from holdfast.engine.home import Home  # noqa: PLC0415 - as the docstring says

        return Home
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

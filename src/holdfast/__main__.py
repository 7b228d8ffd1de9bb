"""`python -m holdfast` is the same program as `holdfast`."""

from holdfast.app.cli.main import entry

entry()

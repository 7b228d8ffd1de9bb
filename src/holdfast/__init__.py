"""Holdfast runs coding agents on a git repository, and survives anything."""

__version__ = "0.1.0"

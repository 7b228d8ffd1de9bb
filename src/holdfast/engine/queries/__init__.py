"""Reads runs from outside: lists, single runs, logs, digests, diffs. Part of the public API."""

"""Reading runs from outside: lists, one run, logs, digests, diffs. Part of the public API."""

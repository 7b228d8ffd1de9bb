"""Checks that what Holdfast relies on holds here: the disk, the kernel, git, and a run that is killed and resumed.

The checks block and run their own event loops: call `run_selftest` in a thread.
"""

"""Checks that what Holdfast relies on holds here: the disk, the kernel, git, and a run that is killed and resumed."""

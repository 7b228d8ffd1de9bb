"""Commands that hand on the work of a run: merge, push, pr."""

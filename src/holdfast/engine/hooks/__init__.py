"""User commands that run when something happens in a run."""

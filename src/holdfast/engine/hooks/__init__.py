"""Commands of the user that run when something happens in a run."""

"""One file with everything of a run, to continue it on another machine."""

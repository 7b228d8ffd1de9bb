"""One session of one run: the loop, its steps, and the readable files beside the log."""

"""Commands that start and continue runs: run, resume, plan, watch, demo."""

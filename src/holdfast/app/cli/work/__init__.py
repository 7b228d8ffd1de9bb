"""Commands that move runs: run, resume, plan, watch, demo."""

"""Commands that only read: ls, show, logs, top, diff, analyze, verify, export."""

"""Sessions of other tools: find them, read them, and continue them as runs."""

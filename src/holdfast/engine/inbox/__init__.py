"""The messages into a run: sending them, and applying them."""

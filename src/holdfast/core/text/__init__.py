"""Small pure functions on text."""

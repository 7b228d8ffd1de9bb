"""The endpoints that act."""

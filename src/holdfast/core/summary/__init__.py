"""What a person wants to know of a run: needs, gates, digest, spend."""

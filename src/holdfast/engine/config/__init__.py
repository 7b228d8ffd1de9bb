"""Settings: read from their files, with origins and trust, and as a run uses them."""

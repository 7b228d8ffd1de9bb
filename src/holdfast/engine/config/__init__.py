"""Settings: read from files with their origin and trust, and resolved for a run."""

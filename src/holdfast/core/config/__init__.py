"""Settings as data: every key, its validation, and what a repository may not decide."""

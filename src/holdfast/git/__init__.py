"""What touches a repository: facts about it, and effects on it, each with a probe. Never on the user's own checkout."""

"""What a run would use, and what an existing run uses: agents, workflows, settings, the project's own files."""

"""The agents of a run: conversations, recovery, permissions, transcripts, what each agent was measured to do."""

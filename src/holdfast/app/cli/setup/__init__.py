"""Commands that configure: config, agents, workflow, preferences, completion."""

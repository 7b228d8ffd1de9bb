"""How agents report: MCP tools whose calls become durable messages of the run."""

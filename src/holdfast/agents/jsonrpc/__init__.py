"""JSON-RPC, one message a line: the layer below ACP and MCP, for clients and agents alike."""

"""What speaks the Agent Client Protocol: for now the playbook agent, a real agent that plays a script."""

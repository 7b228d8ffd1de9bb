"""Files and folders: contained access, sync, deletion, YAML."""

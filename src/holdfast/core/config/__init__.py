"""Settings as data: keys, validation, and which settings of a repository need trust."""

"""The messages of jobs: their content, and their delivery to Discord."""

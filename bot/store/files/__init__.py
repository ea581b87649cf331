"""The rows of picture files, and how long files are kept."""

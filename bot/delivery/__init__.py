"""What a job's message shows, and how it reaches Discord."""

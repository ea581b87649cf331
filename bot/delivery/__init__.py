"""Messages of jobs and reviews: their content, and the outbox, which sends each of them once."""

"""What operators look at: who is logged in, workers, failed images, and messages on their way."""

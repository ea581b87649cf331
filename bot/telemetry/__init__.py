"""What a process says about itself: the log, metrics, traces."""

"""Requests from `submit` to the answer: lane queues, seats, runs, and the thread that drives the devices."""

"""One database: engines, connections, transactions, wake-ups, outages."""

"""The queue: jobs, leases, positions, deliveries, offers."""

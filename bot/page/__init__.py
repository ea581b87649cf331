"""The operators' page: health, the queue, workers, failures, deliveries, the audit log and usage."""

"""The durable queue: jobs and images as plain data, leases, fair order, deliveries."""

from bot.store.database.engines import check_url
from bot.store.store import Store

__all__ = ["Store", "check_url"]

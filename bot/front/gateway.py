"""The connections of a client's shards to Discord's gateway."""

from __future__ import annotations

from bot.metrics import WELL, FrontMetrics


class GatewayConnections:
    """Counts lost and restored connections, and knows which shards are connected."""

    def __init__(self, metrics: FrontMetrics) -> None:
        self._metrics = metrics
        self._shards: dict[int, bool] = {}  # whether each shard is connected

    def note(self, event: str, shard: int) -> None:
        """Count a lost or restored connection."""
        self._shards[shard] = event != "disconnected"
        self._metrics.gateway_events.labels(event).inc()

    def health(self) -> str:
        """Return "well", or why the gateway is not connected."""
        lost = [str(shard) for shard, connected in sorted(self._shards.items()) if not connected]
        if lost:
            return f"shard {', '.join(lost)} is not connected to Discord's gateway"
        return WELL if self._shards else "not connected to Discord's gateway"

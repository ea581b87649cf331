"""The worker: takes images from the queue, has the engine paint them, and records what came of it."""

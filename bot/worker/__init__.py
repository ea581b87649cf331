"""The worker: claims images from the queue, paints them with the engine, and records their end."""

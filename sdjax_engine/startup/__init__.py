"""Making an engine ready: the registry of models and lanes, the warm-up, and which lanes were used lately."""

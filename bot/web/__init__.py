"""Pages for operators: metrics and health."""

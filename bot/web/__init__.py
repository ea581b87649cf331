"""The pages for operators: metrics and health."""

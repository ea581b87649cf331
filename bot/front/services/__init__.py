"""A request, what applies to its person, and the services that answer it."""

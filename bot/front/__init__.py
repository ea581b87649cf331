"""The Discord side: a thin skin over pure functions and the store's verbs."""

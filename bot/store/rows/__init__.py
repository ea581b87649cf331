"""Rows as plain data, and the statements that several verbs share."""

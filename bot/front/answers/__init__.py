"""Answers to interactions: acknowledgements, pages, forms, buttons, refusals."""

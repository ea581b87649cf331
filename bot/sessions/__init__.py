"""Group sessions as pure functions: themes, forms, results of votes, archives; no Discord, no database."""

"""The C2PA manifest in pictures that leave the bot: signed claims that a model has painted them."""

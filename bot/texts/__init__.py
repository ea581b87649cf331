"""The texts that people read, in each language, and the sentences for mistakes."""

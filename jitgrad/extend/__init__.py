"""A user's own ops, which get all that built-in ops get."""

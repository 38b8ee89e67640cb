"""Small real data sets that ship with the package."""

"""Reading and writing by index, slice and mask."""

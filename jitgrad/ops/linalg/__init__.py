"""Products of matrices, and what is read off them."""

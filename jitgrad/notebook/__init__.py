"""HTML representations and pictures of graphs."""

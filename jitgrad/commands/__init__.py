"""What `python -m jitgrad` can do, one command a file."""

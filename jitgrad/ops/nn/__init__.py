"""Ops of neural networks: losses, normalisation, dropout, embedding."""

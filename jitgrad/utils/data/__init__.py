"""Datasets, samplers and the DataLoader."""

"""Modules, parameters and losses under PyTorch's names."""

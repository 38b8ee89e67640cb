"""Tools under PyTorch's names: data loading."""

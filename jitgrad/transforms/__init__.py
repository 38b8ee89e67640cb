"""Function transforms on wrapped tensors: forward mode and vmap."""

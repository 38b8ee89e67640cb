"""How modules' parameters are converted: settings of ``torch.__future__``."""

overwrite = False  # whether parameters become new objects, not the same with other values
swap = False  # whether PyTorch swaps tensors' contents: here parameters stay the same objects in any case

"""The ground floor: dtypes, layouts, storage, devices, modes, nodes and Tensor. No op is known here."""

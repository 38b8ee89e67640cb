"""From a call to a launch to a node: how ops are declared, bound, planned, recorded and published."""

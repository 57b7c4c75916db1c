"""Memory for the tensors of a host program."""

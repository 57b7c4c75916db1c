"""Questions asked of Kernel IR and of what its memory is."""

"""nvcc, the driver and the GPU."""

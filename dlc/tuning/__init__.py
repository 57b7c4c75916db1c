"""Search over the schedules of a kernel, by what they are predicted or measured to take."""

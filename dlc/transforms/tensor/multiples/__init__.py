"""Programs for multiples of sizes alone."""

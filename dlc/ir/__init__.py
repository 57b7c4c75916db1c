"""Shared by all levels: index expressions, monoids, source locations, SSA dominance."""

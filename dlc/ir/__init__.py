"""What every level shares: index expressions, monoids, source locations, SSA dominance."""

"""What `reorder-sums` finds and makes."""

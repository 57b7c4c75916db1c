"""What `lower-stages`, `lower-reduces` and `lower-registers` consist of."""

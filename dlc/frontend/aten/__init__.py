"""ATen operations in fewer others, and what PyTorch leaves unchecked of their arguments."""

"""A reduce shared by several blocks, and the two ways to put together what they hold."""

"""A reduce shared by several blocks, and the three ways to put together what they hold."""

"""How operands are laid out anew, once."""

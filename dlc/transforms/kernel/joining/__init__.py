"""What `join-launches` consists of."""

"""PyTorch programs in: torch.export to Torch IR, `-c` text and scripts, torch.compile's backend."""

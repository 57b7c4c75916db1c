"""Attention of four heads, causal: `dlc run examples/attention.py`, or --explain of dlc compile."""

import torch
from torch.nn import functional as F

q = torch.randn(1, 4, 32, 16)
k = torch.randn(1, 4, 32, 16)
v = torch.randn(1, 4, 32, 16)

F.scaled_dot_product_attention(q, k, v, is_causal=True)

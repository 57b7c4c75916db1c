"""Dimensions that are products of sizes, taken apart."""

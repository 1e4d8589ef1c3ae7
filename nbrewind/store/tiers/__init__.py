"""Chains of stores, fastest first: written to the first, copied to the others, read from any."""

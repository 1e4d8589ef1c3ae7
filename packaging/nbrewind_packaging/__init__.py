"""Notebooks that travel with their records and checkpoints: pack, unpack, verify."""

"""Stores in buckets, and whatever else keeps named files and no more."""

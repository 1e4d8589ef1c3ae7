"""For tests, ours and those of plug-ins: a shell without IPython, stores in memory, oracles."""

"""Training state that knows nothing of the layout it was saved in, and cells that resume."""

"""What to minimise: the risks and the divergence, as functions and as a module."""

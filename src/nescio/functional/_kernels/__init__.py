"""The exact evaluation of all losses at once, private."""

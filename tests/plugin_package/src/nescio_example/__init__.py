"""What someone else adds to nescio."""

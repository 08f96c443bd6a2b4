"""Ways to use nescio from other libraries, each importable alone."""

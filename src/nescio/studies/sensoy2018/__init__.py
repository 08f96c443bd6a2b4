"""The paper's experiments: Table 1, its five figures, its claims in words, and a report of them all."""

"""Reports: pages and model cards that say in figures, pictures and plain sentences what a model can do."""

"""Evidential methods: their predictions are opinions."""

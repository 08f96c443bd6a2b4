"""Evidential methods: EDL and its successors. Their predictions are opinions, but for DAEDL and F-EDL."""

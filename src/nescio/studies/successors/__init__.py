"""Evidential methods side by side: what came after EDL, and the baselines, under one protocol."""

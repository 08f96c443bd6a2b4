"""The demo: two networks on real digits, measured on digits, letters and a rotated 1, as a report."""

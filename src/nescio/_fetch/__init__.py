"""Fetching: files from folders, the web and registries, unpacked, verified by their hashes, kept in a cache.

Data sets and the weights of encoders come this way. Which there are, is said where they are used.
"""

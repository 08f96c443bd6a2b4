"""The service: opinions over HTTP, and the page where one can watch a network doubt."""

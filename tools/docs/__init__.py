"""What builds the site: `make docs`."""

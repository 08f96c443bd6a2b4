"""What writes committed files, and what builds the site."""

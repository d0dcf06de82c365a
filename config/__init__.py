"""What to use: the file and the environment, checked once at start, as frozen values."""

"""Many documents with one progress: what `staffel summarize` does with a folder."""

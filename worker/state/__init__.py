"""What all workers know together."""

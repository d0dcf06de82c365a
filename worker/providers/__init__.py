"""The hosts' protocols, one file each."""

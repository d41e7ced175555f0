"""Benchmarks that anyone can repeat: `make bench`. One file per job, bounds and peers beside us, one table out."""

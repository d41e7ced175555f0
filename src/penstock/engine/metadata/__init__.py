"""The metadata store: versioned keys with compare-and-set and multi-key commits, in memory or in a SQLite file.

A commit is applied whole or not at all. The SQLite file carries digests, a chain and a mark outside of it, so that a
commit that SQLite lost is noticed. Imports model, errors, codec and runtime; nothing of the engine.
"""

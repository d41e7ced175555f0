"""Lookups by key; small ones of several threads travel together."""

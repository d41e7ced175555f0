"""The functions of `penstock.spark`: read, changes, write, streams, joins, views."""

"""Tables and partitions as plain values: spec, properties, merge engine."""

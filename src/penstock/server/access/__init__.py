"""Who calls: tokens, certificates, and paths that only some callers are told."""

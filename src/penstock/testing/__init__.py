"""The test kit, also for users: oracle, faulty disk, manual clock, server fixture."""

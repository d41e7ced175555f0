"""Output for people and programs: tables, colours, exit codes, progress, options that commands share."""

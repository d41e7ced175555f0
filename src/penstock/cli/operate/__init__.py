"""Commands on a server or a directory as a whole: serve, top, doctor, backup, restore, bench."""

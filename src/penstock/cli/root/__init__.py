"""The root of the command line: its list of commands, the options that all of them take, help, completion."""

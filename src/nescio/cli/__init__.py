"""The command line: arguments become one function call, errors one line and an exit code."""

"""One file per command: a frozen dataclass whose fields are the options and whose `run` does the work.

Importing a command costs nothing: whatever is heavy is imported inside `run`.
"""

"""What happened in a world: transitions, checked on the way in, in memory, in tables and in files."""

"""What a world is: kinds and properties, relations, references, frames, domains."""

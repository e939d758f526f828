"""Files from anywhere, read within bounds and written whole: JSON, safetensors, Parquet, folders with locks."""

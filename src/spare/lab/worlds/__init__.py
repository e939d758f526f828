"""Worlds that SPARE is tested with: push (two physics engines), queue (its rule is known), tray, billiards, flights."""

"""Worlds that ship with SPARE: each is a domain, a source of experience, and pictures of it."""

"""Parsers turn one text into a fact; they are pure and raise ValueError on what is not it."""

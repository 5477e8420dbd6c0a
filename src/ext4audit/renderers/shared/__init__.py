"""What several formats share: escaping, words, rows, subjects, places."""

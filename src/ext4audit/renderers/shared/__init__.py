"""What several formats share: escaping, page settings, text for terms, rows and subjects."""

"""What several formats share: the words of a report, its rows, subjects, commands and causes."""

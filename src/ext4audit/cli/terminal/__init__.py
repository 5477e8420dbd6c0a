"""What only a terminal gets: coloured help, tables, rendered Markdown, links and the pager."""

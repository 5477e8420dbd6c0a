"""What to change in a plan, proved by judging it again, and the lines to use."""

"""Archives that other programs make: sosreport, Insights, supportconfig."""

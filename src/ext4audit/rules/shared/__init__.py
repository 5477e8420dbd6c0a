"""What rules of several families share: evidence, sizes and times, intent, vendor demands."""

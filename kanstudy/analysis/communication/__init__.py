"""What communication takes: blocking all-reduces, and how much of them a step of training hides."""

"""What documents say of a whole stack: one judge for all that shows it or decides by it. Pure."""

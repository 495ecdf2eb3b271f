"""What a visit will do, before anything is built: layout, steps, obstacles, expected time. Pure."""

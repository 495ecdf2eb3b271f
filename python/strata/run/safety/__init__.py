"""What keeps a machine and its data from harm: claims, locks, the journal of undos, cleaning."""

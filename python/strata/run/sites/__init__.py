"""Where visits are carried out: this machine, one reached by ssh, lab machines."""

"""Strata: which storage stack should carry your VMs and containers, answered with evidence."""

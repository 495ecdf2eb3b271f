"""The only room that starts a process or opens a connection."""

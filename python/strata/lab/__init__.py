"""The lab: a throw-away QEMU machine from Debian packages alone, built once and cached by content."""

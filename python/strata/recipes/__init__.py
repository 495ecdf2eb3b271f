"""How a stack is built to stay: written for a machine of its owner's, from the plans that built it for measuring. Pure.

`plan` lays a stack out on the devices that its owner names. Each file in `formats` writes that in one format, or says
why the format cannot express it; a new format is a new file there that exports `FORMAT`.
"""

"""
Text of a language model, token by token: a prompt is read in chunks, then one compiled step makes a
token of each row. All that changes lies on the device: the step reads and writes it in place.
"""

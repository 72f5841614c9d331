"""The optional compiled back end of host devices: the exact steps of an expression as machine code, with NumPy's bits."""

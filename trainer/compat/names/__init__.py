"""Tables of the names of `v1` and `v2`.

A name comes from an own module, from another room of compat or from TensorFlow; for every other
name, a table has the reason of its absence.
"""

"""How the modules of `v1` and `v2` get their names: their own, those of the rooms beside, those of
TensorFlow, and for all others the reason why they are not there.
"""

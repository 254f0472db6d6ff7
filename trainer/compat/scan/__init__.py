"""Reads programs without running them: which names of TensorFlow they use, and how to import
them.
"""

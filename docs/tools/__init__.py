"""Tools that make documentation from the code: drawings, and pages of reference."""

"""What makes the documentation from the code: drawings, and pages of reference."""

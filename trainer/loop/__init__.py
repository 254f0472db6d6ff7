"""Steps, many steps in one call of the device, and the loop around them."""

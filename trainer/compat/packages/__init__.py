"""Other packages that programs import, with the names that they had: gin and tensorflow_hub."""

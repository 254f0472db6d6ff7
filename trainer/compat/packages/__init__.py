"""Other packages that programs import, with their former names: gin and tensorflow_hub."""

"""Makes the folder of a new project: a model, its data, a gin file, a test and a README."""

"""Small manifests in the shape of those of public projects; each is one YAML file of objects."""

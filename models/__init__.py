"""Language models behind one class, `models.client.Models`. Importing this package loads no provider."""

"""Language models behind one class, `models.client.Models`. Importing this loads no provider."""

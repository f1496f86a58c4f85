"""Language models behind one door: `models.door.Models`. Importing this loads no provider."""

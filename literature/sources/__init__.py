"""The four catalogues, each behind `literature.works.Source`."""

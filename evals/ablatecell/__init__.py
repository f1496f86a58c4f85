"""What is held against AblateCell: its worked cases (`golden`), its printed numbers (`published`), `recovery`."""

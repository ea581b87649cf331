"""A checkpoint on the devices, and what a request needs of it: token ids, tables, LoRA rows, pictures."""

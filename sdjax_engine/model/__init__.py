"""A checkpoint on the devices, and requests prepared for it: token ids, tables, LoRA rows, pictures."""

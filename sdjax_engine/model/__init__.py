"""A checkpoint on the devices, and what a request needs from it: token ids, tables, LoRA rows, start pictures."""

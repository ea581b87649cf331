"""The original layout: a single safetensors file, recognised by its tensors and read under today's names."""

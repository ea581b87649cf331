"""The devices, their memory, and which models it holds."""

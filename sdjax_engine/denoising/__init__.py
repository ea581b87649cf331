"""The arithmetic of the compiled programs, as pure JAX functions of arrays."""

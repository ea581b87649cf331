"""The arithmetic of the compiled programs: pure JAX functions of arrays."""

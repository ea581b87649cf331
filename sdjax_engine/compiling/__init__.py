"""Compiling programs, and keeping the compiled programs on disk.

`Compiler.compile` asks three layers, in this order, before XLA:

1. its own dictionary: an equal program of this process is compiled once;
2. a file found by code (`Executables.path_by_code`): nothing is traced. It answers as long as the engine's
   source, the libraries, their settings, the checkpoint's configurations and the shapes stay the same.
3. a file found by lowering (`Executables.path_by_lowering`): the program is traced and lowered, not compiled.
   It answers after a change of the source that lowers to the same program.

JAX's own cache is not used: it saved nothing, and its writing cost 8 % of a cold start. An application may
use it for itself.

`docs/internals/benchmarks/README.md` ("Start-up and memory") has the time that each layer saves.
"""

"""Host arrays between processes through mpi4py: the communicator, what it says beside its data, and the process's end."""

"""GPU arrays between processes through NCCL: the communicator, and the Python packages that call the library."""

"""How processes that MPI did not start find each other: a store served by rank 0, authenticated by the job's secret."""

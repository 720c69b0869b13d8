"""The openb benchmark: packing of a recorded GPU cluster, beside the published results."""

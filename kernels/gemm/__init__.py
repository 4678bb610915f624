"""Matrix products with NVFP4 weights: the reference, library calls, and our own kernels by architecture."""

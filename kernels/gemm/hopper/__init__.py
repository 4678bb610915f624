"""Products with NVFP4 weights on Hopper (sm_90a): `gemm` has the functions, `linear` the layer for checkpoints."""

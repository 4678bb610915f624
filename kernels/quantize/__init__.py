"""Quantizers from a 16-bit or 32-bit matrix to NVFP4. The reference is `kernels.nvfp4.quantize`."""

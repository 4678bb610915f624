"""NVFP4 kernels: the format, its references, the quantizer and the matrix products. Knows nothing of the
service.
"""
